import type { FilePort } from '../../internal/file/index.ts';
import { WorkspaceError } from './errors.ts';

const MAX_KEY_BYTES = 256 * 1024;
const OTHERS = 0o077;

/** A file that nobody else may read. @throws WorkspaceError `workspace-missing`, `workspace-key-mode` */
export async function readSecretFile(files: FilePort, path: string): Promise<string> {
  const raw = await files.read(path, MAX_KEY_BYTES);
  if (raw === undefined) throw new WorkspaceError('workspace-missing', `reading ${path}: it does not exist`);
  const mode = (await files.stat(path))?.mode ?? 0;
  if ((mode & OTHERS) !== 0) {
    throw new WorkspaceError('workspace-key-mode', `reading ${path}: its mode is 0${mode.toString(8)}`);
  }
  return Buffer.from(raw).toString('utf8');
}
