import { expect, test } from '@jest/globals';
import { firstProgram } from './first-program.ts';

const NAMES: Readonly<Record<number, string>> = {
  59: 'execve',
  60: 'exit',
  80: 'chdir',
  161: 'chroot',
  165: 'mount',
};
const ARGUMENTS = ['bf', 'be', 'ba', '41ba', '41b8'];

/** Disassembles the instructions that the program consists of. Texts are shown instead of their addresses. */
function callsOf(program: Uint8Array): readonly string[] {
  const file = Buffer.from(program);
  const loadAddress = Number(file.readBigUInt64LE(64 + 16));
  const textAt = (address: number): string => {
    const at = address - loadAddress;
    if (at < 0 || at >= file.length) return `0x${address.toString(16)}`;
    return JSON.stringify(file.toString('latin1', at, file.indexOf(0, at)));
  };
  const calls: string[] = [];
  let values: number[] = [];
  let at = Number(file.readBigUInt64LE(24)) - loadAddress;
  const has = (hex: string): boolean => file.toString('hex', at, at + hex.length / 2) === hex;
  for (;;) {
    const argument = ARGUMENTS.findIndex((opcode) => has(opcode));
    if (argument >= 0) {
      const length = (ARGUMENTS[argument] ?? '').length / 2;
      values[argument] = file.readUInt32LE(at + length);
      at += length + 4;
    } else if (has('b8')) {
      const name = NAMES[file.readUInt32LE(at + 1)] ?? '';
      expect(file.toString('hex', at + 5, at + 7)).toBe('0f05');
      calls.push(`${name} ${values.map((value) => (name === 'exit' ? value : textAt(value))).join(' ')}`);
      values = [];
      at += 7;
    } else if (has('4885c079')) {
      calls.push(`unless it failed: skip ${file[at + 4] ?? 0} bytes`);
      at += 5;
    } else if (has('488b0424488d742408488d54c410')) {
      calls.push('arguments and environment of the program');
      at += 14;
    } else break;
  }
  return calls;
}

test('firstProgram() mounts the root directory once more over itself, and ends with the number of a call that fails', () => {
  const failed = (step: number): string[] => ['unless it failed: skip 12 bytes', `exit ${step}`];
  expect(callsOf(firstProgram('/usr/lib/systemd/systemd'))).toEqual([
    ...['mount "/" "/run" "" 0x1000 0x0', ...failed(1)],
    ...['chdir "/run"', ...failed(2)],
    ...['mount "." "/" "" 0x2000 0x0', ...failed(3)],
    ...['chroot "."', ...failed(4)],
    ...['chdir "/"', ...failed(5)],
    ...['arguments and environment of the program', 'execve "/usr/lib/systemd/systemd"', 'exit 6'],
  ]);
});

test('firstProgram() is a static executable for x86-64 whose only segment is the whole file, not writable', () => {
  const file = Buffer.from(firstProgram('/init'));
  expect(file.toString('latin1', 0, 4)).toBe('\x7fELF');
  expect([file.readUInt16LE(16), file.readUInt16LE(18), file.readUInt16LE(56)]).toEqual([2, 62, 1]);
  const segment = file.subarray(64);
  expect([segment.readUInt32LE(0), segment.readUInt32LE(4)]).toEqual([1, 5]);
  expect(segment.readBigUInt64LE(32)).toBe(BigInt(file.length));
});
