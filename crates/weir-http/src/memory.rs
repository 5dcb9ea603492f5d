//! Tuning of the memory allocator.

/// Freed memory up to twice this much stays with each of the allocator's arenas, of which busy threads have one each.
///
/// A transfer has at most 1 MiB under way to the disk and 1 MiB on its way in, in pieces of up to 512 KiB. Four transfers of a
/// thread find their memory again.
const KEPT: usize = 4 << 20;

/// Makes the allocator keep freed memory for the next buffer instead of returning it to the kernel each time.
///
/// glibc returns free memory at the end of a heap beyond 128 KiB, and maps each larger piece separately. Bulk data come
/// in pieces of up to 512 KiB. So a quarter of all pages of a gigabyte were mapped and zeroed anew, which took an eighth of
/// the CPU of a copy between two endpoints. Both limits grow by themselves when a large mapping is freed (mallopt(3),
/// `M_MMAP_THRESHOLD`), which this does once. It has no effect on other allocators.
pub fn keep_freed_memory() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| drop(std::hint::black_box(Vec::<u8>::with_capacity(KEPT))));
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    /// Page faults of this thread so far: the 10th field of its stat (`proc_pid_stat(5)`), the 8th behind the name.
    fn faults() -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields = stat.rsplit_once(')').unwrap().1;
        fields.split_whitespace().nth(7).unwrap().parse().unwrap()
    }

    fn use_up(pieces: usize) {
        let held: Vec<_> = (0..pieces)
            .map(|_| std::hint::black_box(vec![1_u8; 512 << 10]))
            .collect();
        drop(held);
    }

    /// Each buffer's pages would be mapped and zeroed again: 256 of them per megabyte.
    #[test]
    fn a_buffer_is_made_of_the_last_one() {
        keep_freed_memory();
        use_up(4);
        let before = faults();
        for _ in 0..50 {
            use_up(4);
        }
        let faults = faults() - before;
        assert!(faults < 2_000, "{faults} page faults for 100 MiB, of 25,600 pages");
    }
}
