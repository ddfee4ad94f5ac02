//! Sizes, as people read them.

/// Writes a size with one digit behind the point: `16.0 KiB`.
pub(crate) fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut tenths = u128::from(bytes) * 10;
    let mut units = UNITS.into_iter();
    let mut unit = units.next().unwrap_or_default();
    for larger in units {
        if tenths < 10_240 {
            break;
        }
        tenths /= 1024;
        unit = larger;
    }
    if unit == "B" {
        return format!("{bytes} B");
    }
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_with_units() {
        let texts = [0, 1023, 1024, 16 * 1024, 1536 << 20, 3 << 40, u64::MAX].map(bytes_text);
        let expected = [
            "0 B",
            "1023 B",
            "1.0 KiB",
            "16.0 KiB",
            "1.5 GiB",
            "3.0 TiB",
            "16777215.9 TiB",
        ];
        assert_eq!(texts, expected);
    }
}
