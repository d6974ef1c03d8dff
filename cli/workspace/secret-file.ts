import { readText, type FilePort } from '../../internal/file/index.ts';
import { WorkspaceError } from './errors.ts';

const MAX_KEY_BYTES = 256 * 1024;
const OTHERS = 0o077;

/**
 * Reads a file with a secret and refuses it if group or others have access.
 * @throws WorkspaceError `workspace-missing`, `workspace-key-mode`
 */
export async function readSecretFile(files: FilePort, path: string): Promise<string> {
  const text = await readText(files, path, MAX_KEY_BYTES);
  if (text === undefined) throw new WorkspaceError('workspace-missing', `${path} does not exist`);
  const mode = (await files.stat(path))?.mode ?? 0;
  if ((mode & OTHERS) !== 0) {
    throw new WorkspaceError(
      'workspace-key-mode',
      `permissions 0${mode.toString(8)} of ${path} are too open (need 0600)`,
    );
  }
  return text;
}
