//! How pages of a dump are compressed, each by itself: one row an algorithm.

use ruzstd::decoding::FrameDecoder;

/// Unpacks all of a page; `None` if what is packed is damaged, or another size.
type Unpack = fn(&[u8], &mut [u8]) -> Option<usize>;

/// Flags of a page's descriptor (DUMP_DH_COMPRESSED_…), and what each stands for.
const ALGORITHMS: [(u64, Unpack); 5] = [(0, plain), (0x1, zlib), (0x2, lzo), (0x4, snappy), (0x20, zstd)];
/// More than the frame of a page needs.
const MOST_WINDOW_BYTES: u64 = 8 << 20;

/// Unpacks a page; `false` if it is damaged.
pub(crate) fn unpack(flags: u64, packed: &[u8], page: &mut [u8]) -> bool {
    let algorithm = ALGORITHMS.iter().find(|(known, _)| *known == flags);
    algorithm.is_some_and(|(_, unpack)| unpack(packed, page) == Some(page.len()))
}

fn plain(packed: &[u8], page: &mut [u8]) -> Option<usize> {
    (packed.len() == page.len()).then(|| page.copy_from_slice(packed))?;
    Some(page.len())
}

fn zlib(packed: &[u8], page: &mut [u8]) -> Option<usize> {
    miniz_oxide::inflate::decompress_slice_iter_to_slice(page, std::iter::once(packed), true, false).ok()
}

fn lzo(packed: &[u8], page: &mut [u8]) -> Option<usize> {
    lzokay::decompress::decompress(packed, page).ok()
}

fn snappy(packed: &[u8], page: &mut [u8]) -> Option<usize> {
    snap::raw::Decoder::new().decompress(packed, page).ok()
}

fn zstd(packed: &[u8], page: &mut [u8]) -> Option<usize> {
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(MOST_WINDOW_BYTES);
    decoder.decode_all(packed, page).ok()
}
