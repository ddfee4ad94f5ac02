//! Values that an application compressed before it stored them.

use std::{
    fmt,
    io::{self, Read},
    str::FromStr,
};

use sha2::{Digest, Sha256};

/// How an application compressed a column's values.
///
/// Two values of such a column are equal when they are equal once they are
/// decompressed: the same text may be compressed in many ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Codec {
    /// Snappy: a raw block, or a stream of frames, whichever a value is.
    Snappy,
    /// A zlib stream.
    Zlib,
    /// A gzip file, of one member or several.
    Gzip,
    /// Zstandard frames.
    Zstd,
    /// LZ4 frames.
    Lz4,
}

/// Why a value can't be decompressed.
#[derive(Debug, thiserror::Error)]
#[error("it is no {codec} data")]
pub struct CodecError {
    codec: Codec,
    #[source]
    source: io::Error,
}

/// A text that names no [`Codec`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no compression that is known here: snappy, zlib, gzip, zstd and lz4 are")]
pub struct UnknownCodec(String);

impl Codec {
    /// The most bytes that one value may have once it is decompressed: no
    /// column holds more than 4 GiB, and few bytes could claim to be many.
    pub const DECODED_BYTES_MAX: u64 = 1 << 32;

    /// Returns the SHA-256 of what a value holds once it is decompressed.
    ///
    /// Nothing but a raw Snappy block is held in memory as a whole.
    ///
    /// # Errors
    ///
    /// [`CodecError`] when the value isn't compressed in this way, is damaged,
    /// has something behind its end, or is larger than
    /// [`Codec::DECODED_BYTES_MAX`].
    pub fn digest(self, value: &[u8]) -> Result<[u8; 32], CodecError> {
        let mut rest = value;
        let digest = match self {
            Self::Snappy if value.starts_with(SNAPPY_FRAMES) => {
                read(snap::read::FrameDecoder::new(value))
            }
            Self::Snappy => block(value),
            Self::Zlib => read(flate2::bufread::ZlibDecoder::new(&mut rest)).and_then(|digest| {
                if rest.is_empty() {
                    Ok(digest)
                } else {
                    Err(io::Error::other("bytes follow its end"))
                }
            }),
            Self::Gzip => read(flate2::bufread::MultiGzDecoder::new(value)),
            Self::Zstd => zstd::stream::read::Decoder::new(value).and_then(read),
            Self::Lz4 => read(lz4_flex::frame::FrameDecoder::new(value)),
        };
        digest.map_err(|source| CodecError {
            codec: self,
            source,
        })
    }
}

fn read(decoder: impl Read) -> io::Result<[u8; 32]> {
    let mut limited = decoder.take(Codec::DECODED_BYTES_MAX + 1);
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    let mut all = 0;
    loop {
        let count = limited.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        hash.update(buffer.get(..count).unwrap_or_default());
        all += count as u64;
    }
    if all > Codec::DECODED_BYTES_MAX {
        return Err(io::Error::other("it is larger than a column can hold"));
    }
    Ok(hash.finalize().into())
}

fn block(value: &[u8]) -> io::Result<[u8; 32]> {
    // A block's length stands at its beginning, and Snappy makes nothing
    // smaller than a twentieth or so: a longer one isn't believed.
    let length = snap::raw::decompress_len(value)?;
    if length / BLOCK_RATIO_MAX > value.len() {
        return Err(io::Error::other(format!(
            "it claims to hold {length} bytes"
        )));
    }
    let decoded = snap::raw::Decoder::new().decompress_vec(value)?;
    Ok(Sha256::digest(decoded).into())
}

/// What a stream of Snappy frames begins with.
///
/// Source: Snappy framing format description, "Stream identifier".
const SNAPPY_FRAMES: &[u8] = b"\xff\x06\x00\x00sNaPpY";

/// A copy of 64 bytes takes three bytes of a block at least, so no block holds
/// more than 22 times its size. Source: Snappy format description, "Copies".
const BLOCK_RATIO_MAX: usize = 32;

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Snappy => "snappy",
            Self::Zlib => "zlib",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
        })
    }
}

impl FromStr for Codec {
    type Err = UnknownCodec;

    fn from_str(text: &str) -> Result<Self, UnknownCodec> {
        let all = [Self::Snappy, Self::Zlib, Self::Gzip, Self::Zstd, Self::Lz4];
        let found = all
            .into_iter()
            .find(|codec| codec.to_string() == text.to_ascii_lowercase());
        found.ok_or_else(|| UnknownCodec(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn encoded(codec: Codec, text: &[u8], level: u32) -> Vec<u8> {
        let zlib = flate2::Compression::new(level);
        match codec {
            Codec::Snappy => snap::raw::Encoder::new().compress_vec(text).unwrap(),
            Codec::Zlib => {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), zlib);
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            Codec::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), zlib);
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            Codec::Zstd => zstd::encode_all(text, i32::try_from(level).unwrap()).unwrap(),
            Codec::Lz4 => {
                let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
        }
    }

    const ALL: [Codec; 5] = [
        Codec::Snappy,
        Codec::Zlib,
        Codec::Gzip,
        Codec::Zstd,
        Codec::Lz4,
    ];

    #[test]
    fn what_is_decompressed_counts_and_not_how_it_was_compressed() {
        let text: Vec<u8> = (0..100_000_u32).map(|n| (n / 7 % 251) as u8).collect();
        for codec in ALL {
            let plain: [u8; 32] = Sha256::digest(&text).into();
            assert_eq!(codec.digest(&encoded(codec, &text, 1)).unwrap(), plain);
            assert_eq!(codec.digest(&encoded(codec, &text, 9)).unwrap(), plain);
            let other = codec.digest(&encoded(codec, &text[1..], 1)).unwrap();
            assert_ne!(other, plain, "{codec}");
        }
        let mut frames = snap::write::FrameEncoder::new(Vec::new());
        frames.write_all(&text).unwrap();
        let frames = frames.into_inner().unwrap();
        let block = encoded(Codec::Snappy, &text, 1);
        assert_eq!(
            Codec::Snappy.digest(&frames).unwrap(),
            Codec::Snappy.digest(&block).unwrap()
        );
    }

    #[test]
    fn damaged_values_are_errors() {
        for codec in ALL {
            let good = encoded(codec, b"some text that is long enough to be cut short", 5);
            assert!(codec.digest(&good[..good.len() / 2]).is_err(), "{codec}");
            assert!(
                codec.digest(b"plain text, not compressed").is_err(),
                "{codec}"
            );
        }
        let mut trailing = encoded(Codec::Zlib, b"text", 5);
        trailing.push(0);
        assert!(Codec::Zlib.digest(&trailing).is_err());
        let bomb = [0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0];
        assert!(Codec::Snappy.digest(&bomb).is_err());
    }

    #[test]
    fn names_round_trip() {
        for codec in ALL {
            assert_eq!(codec.to_string().parse(), Ok(codec));
        }
        assert_eq!("SNAPPY".parse(), Ok(Codec::Snappy));
        let error = "bzip2".parse::<Codec>().unwrap_err();
        assert!(error.to_string().contains("snappy, zlib"));
    }
}
