import { resolve } from 'node:path';
import { z } from 'zod';
import { printable } from '../../../internal/printable/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { NodesError } from '../errors.ts';
import type { Registers } from './read-disk-seal.ts';

const MAX_BYTES = 1024 * 1024;
const value = z.string().regex(/^[0-9a-f]{64}$/);
const registers = z.record(
  z.string().regex(/^pcr(?:[0-9]|1[0-9]|2[0-3])$/),
  z.object({ expected: z.union([value, z.array(value).length(1)]) }),
);
/** `reference-values.json` of an image, or what `cluster attest measure --output json` prints. */
const document = z.union([
  z.object({ data: z.object({ registers }) }).transform(({ data }) => data.registers),
  z.object({ registers }).transform((whole) => whole.registers),
]);

/**
 * Reads the registers with which some software will start. Registers of the disk that are not in the file are expected to stay as they
 * are now: a file of an image has none of the firmware, and the other way round.
 * @throws NodesError `nodes-register-file`
 */
export async function readRegisterFile(
  { ports }: CommandContext,
  path: string,
  now: Registers,
): Promise<Registers> {
  const bytes = await ports.files.read(resolve(path), MAX_BYTES);
  if (bytes === undefined) throw unusable(path, 'not found');
  const parsed = document.safeParse(jsonFrom(bytes));
  if (!parsed.success) throw unusable(path, 'it has no registers in the form of `cluster attest measure`');
  const found = parsed.data;
  const valueOf = (pcr: number): string | undefined => [found[`pcr${pcr}`]?.expected].flat()[0];
  if ([...now.keys()].every((pcr) => valueOf(pcr) === undefined))
    throw unusable(
      path,
      `it has none of the registers that the disk is sealed to (${[...now.keys()].join(', ')})`,
    );
  return new Map(
    [...now].map(([pcr, current]) => {
      const hex = valueOf(pcr);
      return [pcr, hex === undefined ? current : new Uint8Array(Buffer.from(hex, 'hex'))];
    }),
  );
}

function jsonFrom(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(bytes).toString('utf8'));
  } catch {
    return undefined;
  }
}

function unusable(path: string, why: string): NodesError {
  return new NodesError('nodes-register-file', `reading the registers in ${printable(path)}: ${why}`);
}
