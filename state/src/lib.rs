//! What survives a crash: the checkpoint, its versioned format and its stores
