//! `Instruction`: the relevant properties of the bytes at an address: whether they lock, repeat, branch, or are a mark.
//!
//! This is not a disassembler: lengths are known only for exchanges. As in the log's `tests/assembly.rs`, an
//! instruction is locked if it has the prefix `lock` or is an exchange with memory, and a full fence counts as locked.

/// The length of the longest instruction.
pub(super) const BYTES_MAX: usize = 15;

/// The kind of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    /// A conditional jump.
    Branch,
    /// `lock xadd`.
    Add,
    /// An exchange with memory.
    Exchange,
    /// Any other locked instruction, `mfence` included.
    OtherLocked,
    /// Enters the kernel.
    SystemCall,
    /// `xchg bx, bx`, which does nothing: begin or end of a traced window.
    Mark,
}

/// The place of the memory operand of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operand {
    /// The processor's number of the base register.
    base: Option<u8>,
    /// The number of the index register, and the power of two that it is multiplied by.
    index: Option<(u8, u8)>,
    offset: i64,
    /// The offset counts from the next instruction, this many bytes ahead.
    from_next: Option<u64>,
}

impl Operand {
    /// Returns the address for an instruction at `at`.
    pub(super) fn address(&self, at: u64, register: impl Fn(u8) -> u64) -> u64 {
        let base = self.base.map_or(0, &register);
        let index = self.index.map_or(0, |(number, power)| register(number) << power);
        let next = self.from_next.map_or(0, |bytes| at.wrapping_add(bytes));
        base.wrapping_add(index).wrapping_add(next).wrapping_add_signed(self.offset)
    }
}

/// The relevant properties of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) kind: Kind,
    /// Whether it repeats at one address.
    pub(super) repeats: bool,
    /// The operand of an exchange, if its address can be determined.
    pub(super) operand: Option<Operand>,
}

const REX_B: u8 = 1;
const REX_X: u8 = 2;
/// Field values with a special meaning: a SIB byte follows, no index, no base.
const SIB_FOLLOWS: u8 = 4;
const NO_INDEX: u8 = 4;
const NO_BASE: u8 = 5;

impl Instruction {
    /// Decodes the instruction at the front of `bytes`.
    pub(super) fn decode(bytes: &[u8]) -> Self {
        let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
        let (mut at, mut locked, mut repeated, mut short, mut elsewhere) = (0, false, false, false, false);
        while at < BYTES_MAX {
            match byte(at) {
                0xF0 => locked = true,
                0xF2 | 0xF3 => repeated = true,
                0x66 => short = true,
                // Another segment or address size: the operand's address is not computed.
                0x64 | 0x65 | 0x67 => elsewhere = true,
                0x26 | 0x2E | 0x36 | 0x3E => {}
                _ => break,
            }
            at += 1;
        }
        let rex = if byte(at) & 0xF0 == 0x40 { byte(at) } else { 0 };
        at += usize::from(rex != 0);
        let modes = byte(at + 1);
        let plain = Self { kind: Kind::Plain, repeats: false, operand: None };
        let of = |kind| Self { kind, ..plain };
        match byte(at) {
            0xCD if byte(at + 1) == 0x80 => of(Kind::SystemCall),
            0x0F => match byte(at + 1) {
                0x05 | 0x34 => of(Kind::SystemCall),
                0xC0 | 0xC1 if locked => of(Kind::Add),
                0xAE if !repeated && !short && byte(at + 2) & 0xF8 == 0xF0 => of(Kind::OtherLocked),
                0x80..=0x8F => of(Kind::Branch),
                _ if locked => of(Kind::OtherLocked),
                _ => plain,
            },
            0x86 | 0x87 if modes >> 6 != 3 => {
                let operand = (!elsewhere).then(|| operand(bytes.get(at + 1..).unwrap_or_default(), at + 1, rex));
                Self { operand, ..of(Kind::Exchange) }
            }
            0x87 if short && rex == 0 && modes == 0xDB => of(Kind::Mark),
            0x70..=0x7F => of(Kind::Branch),
            0xA4..=0xA7 | 0xAA..=0xAF if repeated => Self { repeats: true, ..plain },
            _ if locked => of(Kind::OtherLocked),
            _ => plain,
        }
    }
}

/// Decodes the operand whose encoding begins `rest`, `before` bytes into the instruction; the mode is not "register".
fn operand(rest: &[u8], before: usize, rex: u8) -> Operand {
    let byte = |at: usize| rest.get(at).copied().unwrap_or(0);
    let high = |bit: u8| if rex & bit == 0 { 0 } else { 8 };
    let (mode, field) = (byte(0) >> 6, byte(0) & 7);
    let mut at = 1;
    let (mut base, mut index, mut wide) = (Some(field + high(REX_B)), None, mode == 2);
    let mut relative = false;
    if field == SIB_FOLLOWS {
        let sib = byte(1);
        at = 2;
        let number = (sib >> 3 & 7) + high(REX_X);
        index = (number != NO_INDEX).then_some((number, sib >> 6));
        base = Some((sib & 7) + high(REX_B));
        if mode == 0 && sib & 7 == NO_BASE {
            (base, wide) = (None, true);
        }
    } else if mode == 0 && field == NO_BASE {
        (base, wide, relative) = (None, true, true);
    }
    let offset = if wide {
        i64::from(i32::from_le_bytes([byte(at), byte(at + 1), byte(at + 2), byte(at + 3)]))
    } else if mode == 1 {
        i64::from(i8::from_le_bytes([byte(at)]))
    } else {
        0
    };
    at += if wide { 4 } else { usize::from(mode == 1) };
    Operand { base, index, offset, from_next: relative.then_some((before + at) as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(bytes: &[u8]) -> Kind {
        Instruction::decode(bytes).kind
    }

    /// Goal: locked instructions are distinguished from similar ones. Method: encodings of each, with and without
    /// prefixes.
    #[test]
    fn locked_instructions_are_told_from_others() {
        // lock xadd [rsi], rcx; lock xadd [r9 + 8], eax
        assert_eq!(kind(&[0xF0, 0x48, 0x0F, 0xC1, 0x0E]), Kind::Add);
        assert_eq!(kind(&[0xF0, 0x41, 0x0F, 0xC1, 0x41, 0x08]), Kind::Add);
        // xadd without the prefix is not locked
        assert_eq!(kind(&[0x48, 0x0F, 0xC1, 0x0E]), Kind::Plain);
        // xchg [rdi], rax; xchg rax, rdi
        assert_eq!(kind(&[0x48, 0x87, 0x07]), Kind::Exchange);
        assert_eq!(kind(&[0x48, 0x87, 0xF8]), Kind::Plain);
        // lock cmpxchg [rdi], cl; lock or dword [rsp], 0; mfence; sfence; lfence
        assert_eq!(kind(&[0xF0, 0x0F, 0xB0, 0x0F]), Kind::OtherLocked);
        assert_eq!(kind(&[0xF0, 0x83, 0x0C, 0x24, 0x00]), Kind::OtherLocked);
        assert_eq!(kind(&[0x0F, 0xAE, 0xF0]), Kind::OtherLocked);
        assert_eq!(kind(&[0x0F, 0xAE, 0xF8]), Kind::Plain);
        assert_eq!(kind(&[0x0F, 0xAE, 0xE8]), Kind::Plain);
        // jne near and far; a mark; xchg cx, bx; xchg r8w, r11w
        assert_eq!((kind(&[0x75, 0x10]), kind(&[0x0F, 0x85, 0, 1, 0, 0])), (Kind::Branch, Kind::Branch));
        assert_eq!((kind(&[0x66, 0x87, 0xDB]), kind(&[0x66, 0x87, 0xD9])), (Kind::Mark, Kind::Plain));
        assert_eq!(kind(&[0x66, 0x45, 0x87, 0xDB]), Kind::Plain);
        // syscall; sysenter; int 0x80; int3
        for bytes in [&[0x0F, 0x05][..], &[0x0F, 0x34], &[0xCD, 0x80]] {
            assert_eq!(kind(bytes), Kind::SystemCall, "{bytes:x?}");
        }
        assert_eq!(kind(&[0xCC]), Kind::Plain);
        // rep movsb; rep stosq; movsb; pause
        let repeats = |bytes: &[u8]| Instruction::decode(bytes).repeats;
        assert!(repeats(&[0xF3, 0xA4]) && repeats(&[0xF3, 0x48, 0xAB]));
        assert!(!repeats(&[0xA4]) && !repeats(&[0xF3, 0x90]));
        assert_eq!(kind(&[]), Kind::Plain);
        assert_eq!(kind(&[0x66; 32]), Kind::Plain);
    }

    /// Goal: the address of an exchanged operand is right. Method: each form of operand, with registers that hold
    /// their number times a thousand.
    #[test]
    fn exchange_operands_are_worked_out() {
        let address = |bytes: &[u8]| {
            let instruction = Instruction::decode(bytes);
            assert_eq!(instruction.kind, Kind::Exchange, "{bytes:x?}");
            instruction.operand.map(|operand| operand.address(1_000_000, |number| u64::from(number) * 1000))
        };
        // xchg [rdi], rax; [r15]; [rdi - 8]; [rdi + 0x100]
        assert_eq!(address(&[0x48, 0x87, 0x07]), Some(7000));
        assert_eq!(address(&[0x49, 0x87, 0x07]), Some(15_000));
        assert_eq!(address(&[0x48, 0x87, 0x47, 0xF8]), Some(6992));
        assert_eq!(address(&[0x48, 0x87, 0x87, 0, 1, 0, 0]), Some(7256));
        // [rcx + rax * 8]; [r12]; [rsp + 16]; [rbp + r10 * 2 + 1]; [rdx * 4 + 64], no base
        assert_eq!(address(&[0x48, 0x87, 0x14, 0xC1]), Some(1000));
        assert_eq!(address(&[0x49, 0x87, 0x04, 0x24]), Some(12_000));
        assert_eq!(address(&[0x48, 0x87, 0x44, 0x24, 0x10]), Some(4016));
        assert_eq!(address(&[0x4A, 0x87, 0x44, 0x55, 0x01]), Some(25_001));
        assert_eq!(address(&[0x48, 0x87, 0x04, 0x95, 64, 0, 0, 0]), Some(8064));
        // [rip + 16]: after its 7 bytes; fs:[rdi] is not computed
        assert_eq!(address(&[0x48, 0x87, 0x05, 16, 0, 0, 0]), Some(1_000_023));
        assert_eq!(address(&[0x64, 0x48, 0x87, 0x07]), None);
    }
}
