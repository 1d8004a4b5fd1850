//! What a signal's frame tells beside general registers: records, each with a magic number and its bytes, as Linux lays them out.
//!
//! ```text
//! FP/SIMD: status, control, V0 to V31 │ ESR of a fault │ SVE: bytes of a vector, Z0 to Z31, P0 to P15, FFR │ 0
//! ```

use hardware::user::Simd;

/// What the records take at most, with the zero behind them.
pub(super) const MOST: usize = FPSIMD_BYTES + ESR_BYTES + SVE_BYTES + 8;

const FPSIMD: u32 = 0x4650_8001;
const FPSIMD_BYTES: usize = 528;
const ESR: u32 = 0x4553_5201;
const ESR_BYTES: usize = 16;
const SVE: u32 = 0x5356_4501;
/// A head of 16 bytes, vectors and predicates; to 16 bytes.
const SVE_BYTES: usize = 576;
/// Where vectors begin in both records.
const VECTORS: usize = 16;
const VECTOR_BYTES: usize = 16;
/// Where predicates begin in that of SVE.
const PREDICATES: usize = VECTORS + 32 * VECTOR_BYTES;

/// Writes them; predicates only where the CPU `has_sve`.
pub(super) fn write(records: &mut [u8], simd: &Simd, syndrome: Option<u64>, has_sve: bool) {
    let put_vectors = |record: &mut [u8]| {
        let places = record[VECTORS..].chunks_exact_mut(VECTOR_BYTES);
        places.zip(simd.registers).for_each(|(place, vector)| place.copy_from_slice(&vector.to_le_bytes()));
    };
    let record = begin(records, FPSIMD, FPSIMD_BYTES);
    record[8..12].copy_from_slice(&(simd.status as u32).to_le_bytes());
    record[12..16].copy_from_slice(&(simd.control as u32).to_le_bytes());
    put_vectors(record);
    let mut rest = &mut records[FPSIMD_BYTES..];
    if let Some(syndrome) = syndrome {
        begin(rest, ESR, ESR_BYTES)[8..].copy_from_slice(&syndrome.to_le_bytes());
        rest = &mut rest[ESR_BYTES..];
    }
    if has_sve {
        let record = begin(rest, SVE, SVE_BYTES);
        record[8..10].copy_from_slice(&(VECTOR_BYTES as u16).to_le_bytes());
        put_vectors(record);
        let places = record[PREDICATES..].chunks_exact_mut(2);
        places.zip(simd.predicates).for_each(|(place, predicate)| place.copy_from_slice(&predicate.to_le_bytes()));
    }
}

fn begin(records: &mut [u8], magic: u32, bytes: usize) -> &mut [u8] {
    records[..4].copy_from_slice(&magic.to_le_bytes());
    records[4..8].copy_from_slice(&(bytes as u32).to_le_bytes());
    &mut records[..bytes]
}

/// Reads what a program left there; nothing if its records are none. The vectors are those of FP/SIMD, as on Linux.
pub(super) fn read(mut records: &[u8]) -> Option<Simd> {
    let word = |bytes: &[u8], at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let mut simd = None;
    let mut predicates = [0; 17];
    while word(records, 0)? != 0 {
        let (record, rest) = records.split_at_checked(word(records, 4)? as usize)?;
        match (word(record, 0)?, record.len()) {
            (FPSIMD, FPSIMD_BYTES) => {
                let mut registers = [0; 32];
                let vectors = record[VECTORS..].as_chunks().0;
                registers.iter_mut().zip(vectors).for_each(|(to, vector)| *to = u128::from_le_bytes(*vector));
                let (status, control) = (word(record, 8)?.into(), word(record, 12)?.into());
                simd = Some(Simd { control, status, registers, predicates });
            }
            (SVE, SVE_BYTES) => {
                let halves = record[PREDICATES..].as_chunks().0;
                predicates.iter_mut().zip(halves).for_each(|(to, half)| *to = u16::from_le_bytes(*half));
            }
            (ESR, 8..) => {}
            _ => return None,
        }
        records = rest;
    }
    simd.map(|simd| Simd { predicates, ..simd })
}
