import { join } from 'node:path';
import { z } from 'zod';
import type { FilePort } from '../../internal/file/index.ts';
import { ContextsError } from './errors.ts';

const MAX_BYTES = 256 * 1024;
const shape = z.strictObject({
  version: z.literal(1),
  /** The context that commands use; absent if none was chosen. */
  current: z.string().optional(),
  /** Name → absolute directory of the workspace. */
  workspaces: z.record(z.string(), z.string().startsWith('/')),
});

/** The user's contexts: names of workspaces, and which one is current. */
export type Contexts = z.infer<typeof shape>;

/** Where a user's contexts are. @param config the directory of the user's settings */
export function contextsPath(config: string): string {
  return join(config, 'contexts.json');
}

/** The contexts of the user; none if there is no file. @throws ContextsError `contexts-file-damaged` */
export async function readContexts(files: Pick<FilePort, 'read'>, config: string): Promise<Contexts> {
  const path = contextsPath(config);
  const raw = await files.read(path, MAX_BYTES);
  if (raw === undefined) return { version: 1, workspaces: {} };
  try {
    return shape.parse(JSON.parse(Buffer.from(raw).toString('utf8')));
  } catch (cause) {
    throw new ContextsError('contexts-file-damaged', `reading ${path}: not a file of contexts`, { cause });
  }
}

/** Writes the contexts of the user. */
export async function writeContexts(
  files: Pick<FilePort, 'makeDirectory' | 'writeAtomic'>,
  config: string,
  contexts: Contexts,
): Promise<void> {
  await files.makeDirectory(config);
  await files.writeAtomic(contextsPath(config), `${JSON.stringify(contexts, undefined, 2)}\n`, {
    mode: 0o600,
  });
}
