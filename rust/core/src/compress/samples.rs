//! What a dictionary is learnt from.

const MOST: usize = 2_000;
const MOST_BYTES: usize = 8 << 20;

/// Copies of bodies, one after the other.
#[derive(Debug)]
pub struct Samples {
    bytes: Vec<u8>,
    sizes: Vec<usize>,
}

impl Samples {
    /// Nothing is learnt from fewer bodies.
    pub const LEAST: usize = 200;

    /// Copy bodies at equal distances, as many as a dictionary needs; None if there are too few to learn from.
    pub fn draw(bodies: &[&[u8]]) -> Option<Self> {
        if bodies.len() < Self::LEAST {
            return None;
        }
        let total: usize = bodies.iter().map(|body| body.len()).sum();
        let fitting = bodies.len().saturating_mul(MOST_BYTES) / total.max(1);
        let wanted = bodies.len().min(MOST).min(fitting.max(Self::LEAST));
        let mut samples = Self {
            bytes: Vec::new(),
            sizes: Vec::with_capacity(wanted),
        };
        for number in 0..wanted {
            let Some(body) = bodies.get(number * bodies.len() / wanted) else {
                break;
            };
            // Few large bodies among many small ones may come together.
            if samples.bytes.len() + body.len() <= MOST_BYTES {
                samples.bytes.extend_from_slice(body);
                samples.sizes.push(body.len());
            }
        }
        Some(samples)
    }

    /// Return all of them, and the size of each.
    pub(super) fn parts(&self) -> (&[u8], &[usize]) {
        (&self.bytes, &self.sizes)
    }

    /// Return each of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &*self.bytes;
        self.sizes.iter().map(move |size| {
            let (body, after) = rest.split_at(*size);
            rest = after;
            body
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(count: usize, size: usize) -> Option<Vec<u32>> {
        let body = |number: u32| {
            let mut body = number.to_le_bytes().to_vec();
            body.resize(size, 0);
            body
        };
        let bodies: Vec<_> = (0..).take(count).map(body).collect();
        let bodies: Vec<_> = bodies.iter().map(Vec::as_slice).collect();
        let samples = Samples::draw(&bodies)?;
        let number = |body: &[u8]| u32::from_le_bytes(body[..4].try_into().expect("4 bytes"));
        Some(samples.iter().map(number).collect())
    }

    #[test]
    fn samples_are_drawn_at_equal_distances_up_to_a_number_and_a_size() {
        assert_eq!(drawn(199, 300), None);
        assert_eq!(drawn(200, 300).map(|all| all.len()), Some(200));
        let many = drawn(10_000, 300).expect("samples");
        assert_eq!((many.len(), many[1], many[1_999]), (2_000, 5, 9_995));
        let large = drawn(1_000, 16 << 10).expect("samples");
        assert_eq!((large.len(), large[1], large[511]), (512, 1, 998));
    }
}
