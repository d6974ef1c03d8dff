/** System calls of x86-64 (arch/x86/entry/syscalls/syscall_64.tbl). */
const CALLS = { execve: 59, exit: 60, chdir: 80, chroot: 161, mount: 165 } as const;
/** Flags of mount(2). */
const MS_BIND = 0x1000;
const MS_MOVE = 0x2000;

const LOAD_ADDRESS = 0x40_0000;
const ELF_HEADER_BYTES = 64;
const PROGRAM_HEADER_BYTES = 56;
const CODE_OFFSET = ELF_HEADER_BYTES + PROGRAM_HEADER_BYTES;
/** An empty directory of the image, on which the root directory is mounted for a moment. */
const MOUNT_POINT = '/run';

/** An argument of a system call: a number, or a text whose address is passed. */
type Argument = number | string;

/**
 * The first program of the machine, as a static ELF file for x86-64. It makes the root directory a mount of its own, and replaces
 * itself with `next`, with the same arguments:
 *
 * ```
 * mount("/", "/run", "", MS_BIND, 0)     the same files as a second mount, which costs no memory
 * chdir("/run")
 * mount(".", "/", "", MS_MOVE, 0)        the second mount covers the first one
 * chroot(".")
 * chdir("/")
 * execve(next)
 * ```
 *
 * pivot_root(2) refuses the kernel's first mount, so that no container could start from it
 * (docs/decisions/image-root.md). If a call fails, the program ends with the number of the call, which the kernel shows in its panic.
 */
export function firstProgram(next: string): Uint8Array {
  const steps: readonly (readonly [number, ...Argument[]])[] = [
    [CALLS.mount, '/', MOUNT_POINT, '', MS_BIND, 0],
    [CALLS.chdir, MOUNT_POINT],
    [CALLS.mount, '.', '/', '', MS_MOVE, 0],
    [CALLS.chroot, '.'],
    [CALLS.chdir, '/'],
  ];
  const texts = new Texts();
  // The length of the code does not depend on the addresses, so that a first pass finds where the texts begin.
  const assemble = (textsAt: number): Buffer =>
    Buffer.concat([
      ...steps.map((step, index) => callOrExit(step, index + 1, (text) => textsAt + texts.offsetOf(text))),
      replaceProgram(textsAt + texts.offsetOf(next), steps.length + 1),
    ]);
  const codeBytes = assemble(0).length;
  const code = assemble(LOAD_ADDRESS + CODE_OFFSET + codeBytes);
  return withHeaders(Buffer.concat([code, texts.bytes()]));
}

/** Texts that end with a zero byte, each one once. */
class Texts {
  readonly #offsets = new Map<string, number>();
  #length = 0;

  offsetOf(text: string): number {
    const known = this.#offsets.get(text);
    if (known !== undefined) return known;
    const offset = this.#length;
    this.#offsets.set(text, offset);
    this.#length += Buffer.byteLength(text) + 1;
    return offset;
  }

  bytes(): Buffer {
    return Buffer.from([...this.#offsets.keys()].map((text) => `${text}\0`).join(''));
  }
}

/** `mov r32, imm32` for the registers of arguments one to five: edi, esi, edx, r10d, r8d. */
const MOVE_TO_ARGUMENT = [[0xbf], [0xbe], [0xba], [0x41, 0xba], [0x41, 0xb8]] as const;
const MOVE_TO_EAX = [0xb8];
const SYSCALL = [0x0f, 0x05];

function moveNumber(opcode: readonly number[], value: number): Buffer {
  const immediate = Buffer.alloc(4);
  immediate.writeUInt32LE(value);
  return Buffer.concat([Buffer.from(opcode), immediate]);
}

function systemCall(call: number, ...values: readonly number[]): Buffer {
  const moves = values.map((value, index) => moveNumber(MOVE_TO_ARGUMENT[index] ?? [], value));
  return Buffer.concat([...moves, moveNumber(MOVE_TO_EAX, call), Buffer.from(SYSCALL)]);
}

function callOrExit(
  [call, ...values]: readonly [number, ...Argument[]],
  step: number,
  addressOf: (text: string) => number,
): Buffer {
  const numbers = values.map((value) => (typeof value === 'string' ? addressOf(value) : value));
  const exit = systemCall(CALLS.exit, step);
  return Buffer.concat([
    systemCall(call, ...numbers),
    Buffer.from([0x48, 0x85, 0xc0]), // test rax, rax
    Buffer.from([0x79, exit.length]), // jns over the exit: the call has succeeded
    exit,
  ]);
}

/** execve(2) with the arguments and the environment that the kernel has put on the stack. */
function replaceProgram(path: number, step: number): Buffer {
  return Buffer.concat([
    Buffer.from([0x48, 0x8b, 0x04, 0x24]), // mov rax, [rsp]: the number of arguments
    Buffer.from([0x48, 0x8d, 0x74, 0x24, 0x08]), // lea rsi, [rsp + 8]: the arguments
    Buffer.from([0x48, 0x8d, 0x54, 0xc4, 0x10]), // lea rdx, [rsp + rax * 8 + 16]: the environment behind them
    systemCall(CALLS.execve, path),
    systemCall(CALLS.exit, step),
  ]);
}

/** Adds the ELF header and one program header, which maps the whole file (System V ABI, chapters 4 and 5). */
function withHeaders(content: Buffer): Uint8Array {
  const file = Buffer.alloc(CODE_OFFSET + content.length);
  content.copy(file, CODE_OFFSET);
  file.write('\x7fELF', 'latin1');
  file.set([2, 1, 1], 4); // 64 bits, little-endian, version 1
  file.writeUInt16LE(2, 16); // an executable at fixed addresses
  file.writeUInt16LE(62, 18); // x86-64
  file.writeUInt32LE(1, 20);
  file.writeBigUInt64LE(BigInt(LOAD_ADDRESS + CODE_OFFSET), 24); // the first instruction
  file.writeBigUInt64LE(BigInt(ELF_HEADER_BYTES), 32); // offset of the program header
  file.writeUInt16LE(ELF_HEADER_BYTES, 52);
  file.writeUInt16LE(PROGRAM_HEADER_BYTES, 54);
  file.writeUInt16LE(1, 56); // number of program headers
  const header = file.subarray(ELF_HEADER_BYTES);
  header.writeUInt32LE(1, 0); // PT_LOAD
  header.writeUInt32LE(5, 4); // readable and executable
  header.writeBigUInt64LE(BigInt(LOAD_ADDRESS), 16);
  header.writeBigUInt64LE(BigInt(LOAD_ADDRESS), 24);
  header.writeBigUInt64LE(BigInt(file.length), 32);
  header.writeBigUInt64LE(BigInt(file.length), 40);
  header.writeBigUInt64LE(0x1000n, 48);
  return file;
}
