import { join } from 'node:path';
import { z } from 'zod';
import type { Json } from '../../internal/config/index.ts';
import { readJson, type FilePort } from '../../internal/file/index.ts';
import type { Caller } from '../cluster/index.ts';

const MAX_BYTES = 4 * 1024 * 1024;
const shape = z.strictObject({ version: z.literal(1), clusterId: z.string(), document: z.json() });

/**
 * Reads the configuration that this workspace applied last: the base of the next merge. Undefined if it is missing or
 * damaged: the operator must then name the revision that the file is based on.
 */
export async function readLastApplied(
  files: FilePort,
  { directory, clusterId }: Caller,
): Promise<Json | undefined> {
  const { data } = shape.safeParse(await readJson(files, pathOf(directory), MAX_BYTES));
  return data?.clusterId === clusterId ? data.document : undefined;
}

/** Saves the configuration that this workspace has applied. */
export async function saveLastApplied(
  files: FilePort,
  { directory, clusterId }: Caller,
  document: Json,
): Promise<void> {
  const text = `${JSON.stringify({ version: 1, clusterId, document })}\n`;
  await files.makeDirectory(directory);
  await files.writeAtomic(pathOf(directory), text, { mode: 0o600 });
}

function pathOf(directory: string): string {
  return join(directory, 'applied.json');
}
