import { resolve } from 'node:path';
import { z } from 'zod';
import { FIRMWARE_REGISTERS, ImageError } from '../../internal/image/index.ts';
import type { CommandContext } from '../app/command.ts';

const MAX_BYTES = 1024 * 1024;
const value = z.string().regex(/^[0-9a-f]{64}$/);
const registers = z.record(z.string(), z.object({ expected: z.union([value, z.array(value).length(1)]) }));
/** What `cluster attest measure --output json` prints, or the registers alone. */
const document = z.union([
  z.object({ data: z.object({ registers }) }).transform(({ data }) => data.registers),
  z.object({ registers }).transform((whole) => whole.registers),
]);

/** Reads the registers of the firmware from a file. @throws ImageError `image-option` */
export async function readFirmwareValues(
  context: CommandContext,
  path: string | undefined,
): Promise<ReadonlyMap<number, Uint8Array>> {
  if (path === undefined) return new Map();
  const bytes = await context.ports.files.read(resolve(path), MAX_BYTES);
  if (bytes === undefined) throw new ImageError('image-option', `firmware values ${path} not found`);
  const found = parse(path, Buffer.from(bytes).toString('utf8'));
  return new Map(
    FIRMWARE_REGISTERS.map((pcr): [number, Uint8Array] => {
      const hex = found[`pcr${pcr}`]?.expected;
      if (hex === undefined) throw new ImageError('image-option', `reading ${path}: pcr${pcr} is missing`);
      return [pcr, Buffer.from(typeof hex === 'string' ? hex : (hex[0] ?? ''), 'hex')];
    }),
  );
}

function parse(path: string, text: string): z.infer<typeof registers> {
  try {
    return document.parse(JSON.parse(text));
  } catch (cause) {
    throw new ImageError('image-option', `reading ${path}: these are not registers of a machine`, { cause });
  }
}
