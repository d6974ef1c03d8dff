import { join } from 'node:path';
import { z } from 'zod';
import type { Json } from '../../internal/config/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { Caller } from '../cluster/index.ts';

const MAX_BYTES = 4 * 1024 * 1024;
const shape = z.strictObject({ version: z.literal(1), clusterId: z.string(), document: z.json() });

/**
 * What of this workspace's configuration was applied last: the base of the next comparison. Lost or damaged it is not
 * there, and the operator is asked to look before anything is overwritten.
 */
export async function readLastApplied(
  files: FilePort,
  { directory: folder, clusterId }: Caller,
): Promise<Json | undefined> {
  const bytes = await files.read(pathOf(folder), MAX_BYTES);
  if (bytes === undefined) return undefined;
  const parsed = shape.safeParse(jsonFrom(Buffer.from(bytes).toString('utf8')));
  return parsed.success && parsed.data.clusterId === clusterId ? parsed.data.document : undefined;
}

export async function saveLastApplied(
  files: FilePort,
  { directory: folder, clusterId }: Caller,
  document: Json,
): Promise<void> {
  const text = `${JSON.stringify({ version: 1, clusterId, document })}\n`;
  await files.makeDirectory(folder);
  await files.writeAtomic(pathOf(folder), text, { mode: 0o600 });
}

function pathOf(folder: string): string {
  return join(folder, 'applied.json');
}

function jsonFrom(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
