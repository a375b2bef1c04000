//! A dictionary, and compressing and decompressing with it.

use std::cell::RefCell;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::quality::RandomState;
use zstd_safe::{CCtx, CDict, CParameter, DCtx, DDict, DParameter, FrameFormat};

use super::Samples;

const LEVEL: i32 = 3;
/// The largest dictionary.
const MOST_DICTIONARY: usize = 64 << 10;
/// A dictionary is at most this part of what it is learnt from: a larger one would remember it instead.
const LEARNT_FROM: usize = 10;
/// Bytes of what compressing leaves of a hundred, above which it does not pay.
const PAYS: u64 = 70;

/// Compresses the bodies of one resource in one encoding. Safe to use from any thread.
pub struct Codec {
    compressing: CDict<'static>,
    decompressing: DDict<'static>,
    /// The size of the dictionary, before it was prepared twice.
    dictionary: usize,
    decompressions: AtomicU64,
    damaged: AtomicU64,
    /// The bytes of all bodies that were compressed, and what was kept of them.
    plain: AtomicU64,
    kept: AtomicU64,
}

thread_local! {
    // Some 200 KiB each; a thread that reads or compresses once does it often.
    static COMPRESSING: RefCell<CCtx<'static>> = RefCell::new(compressing());
    static DECOMPRESSING: RefCell<DCtx<'static>> = RefCell::new(decompressing());
    static OUTPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn compressing() -> CCtx<'static> {
    let mut context = CCtx::create();
    let parameters = [
        CParameter::Format(FrameFormat::Magicless),
        CParameter::ContentSizeFlag(false),
        CParameter::ChecksumFlag(false),
        CParameter::DictIdFlag(false),
    ];
    for parameter in parameters {
        // None of these values is out of range.
        let _ = context.set_parameter(parameter);
    }
    context
}

fn decompressing() -> DCtx<'static> {
    let mut context = DCtx::create();
    let _ = context.set_parameter(DParameter::Format(FrameFormat::Magicless));
    context
}

/// Return the hash of a body; its seed is a secret of the process.
pub(crate) fn hash(body: &[u8]) -> u64 {
    static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::default);
    SEED.hash_one(body)
}

impl Codec {
    /// Learn a dictionary; None if compressing with it does not pay. Takes some 100 ms.
    pub fn learn(samples: &Samples) -> Option<Self> {
        let (bytes, sizes) = samples.parts();
        let size = (bytes.len() / LEARNT_FROM).min(MOST_DICTIONARY);
        let mut dictionary = Vec::with_capacity(size);
        zstd_safe::train_from_buffer(&mut dictionary, bytes, sizes).ok()?;
        let codec = Self {
            compressing: CDict::try_create(&dictionary, LEVEL)?,
            decompressing: DDict::try_create(&dictionary)?,
            dictionary: dictionary.len(),
            decompressions: AtomicU64::new(0),
            damaged: AtomicU64::new(0),
            plain: AtomicU64::new(0),
            kept: AtomicU64::new(0),
        };
        for body in samples.iter() {
            codec.compress(body);
        }
        codec.pays().then_some(codec)
    }

    /// Return whether compressing has saved enough so far.
    pub(crate) fn pays(&self) -> bool {
        let kept = self.kept.load(Ordering::Relaxed);
        kept * 100 <= self.plain.load(Ordering::Relaxed) * PAYS
    }

    /// Compress a body; None if that fails, or does not pay in general.
    pub(crate) fn compress(&self, body: &[u8]) -> Option<Box<[u8]>> {
        if !self.pays() {
            return None;
        }
        let frame = self.frame(body);
        let kept = frame.as_ref().map_or(body.len(), |frame| frame.len());
        self.kept.fetch_add(kept as u64, Ordering::Relaxed);
        self.plain.fetch_add(body.len() as u64, Ordering::Relaxed);
        frame
    }

    fn frame(&self, body: &[u8]) -> Option<Box<[u8]>> {
        COMPRESSING.with_borrow_mut(|context| {
            OUTPUT.with_borrow_mut(|output| {
                output.clear();
                output.reserve(zstd_safe::compress_bound(body.len()));
                context.ref_cdict(&self.compressing).ok()?;
                let compressed = context.compress2(output, body);
                // The next use may be after the end of this dictionary.
                context.disable_dictionary().ok()?;
                compressed.ok()?;
                Some(output.as_slice().into())
            })
        })
    }

    /// Decompress a frame of a body with that length and that hash; None if it is of no such body.
    pub(crate) fn decompress(&self, frame: &[u8], len: usize, hash: u64) -> Option<Vec<u8>> {
        self.decompressions.fetch_add(1, Ordering::Relaxed);
        // Not filled with zeros first: the frame is written to the capacity.
        let mut body = Vec::with_capacity(len);
        let written = DECOMPRESSING.with_borrow_mut(|context| {
            context.decompress_using_ddict(&mut body, frame, &self.decompressing)
        });
        let whole = written.is_ok_and(|written| written == len) && self::hash(&body) == hash;
        whole.then_some(body)
    }

    /// Count an object whose frame was found to be damaged.
    pub(crate) fn count_damaged(&self) {
        self.damaged.fetch_add(1, Ordering::Relaxed);
    }

    /// Return how often it has decompressed.
    pub(crate) fn decompressions(&self) -> u64 {
        self.decompressions.load(Ordering::Relaxed)
    }

    /// Return how many objects were found to be damaged.
    pub(crate) fn damaged(&self) -> u64 {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Return the bytes that the dictionary takes, prepared.
    pub fn memory(&self) -> usize {
        self.compressing.sizeof() + self.decompressing.sizeof()
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Codec of {} bytes", self.dictionary)
    }
}
