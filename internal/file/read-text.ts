import type { FilePort } from './file-port.ts';

/** Larger than every text file that our programs read. The largest one is /proc/self/mountinfo of a busy host. */
const MAX_TEXT_BYTES = 4 * 1024 * 1024;

/**
 * The text of a UTF-8 file, or undefined when it does not exist. A longer file is refused.
 * @throws FileError `file-too-large` and the errors of `FilePort.read`
 */
export async function readText(
  files: Pick<FilePort, 'read'>,
  path: string,
  maxBytes = MAX_TEXT_BYTES,
): Promise<string | undefined> {
  const bytes = await files.read(path, maxBytes);
  return bytes === undefined ? undefined : Buffer.from(bytes).toString('utf8');
}

/**
 * The JSON value of a file; undefined when the file is missing or malformed. The caller passes it to a
 * schema, which refuses undefined.
 */
export async function readJson(
  files: Pick<FilePort, 'read'>,
  path: string,
  maxBytes: number,
): Promise<unknown> {
  const text = await readText(files, path, maxBytes);
  return text === undefined ? undefined : parseJson(text);
}

/**
 * Parses JSON; undefined when it is malformed. The caller's schema refuses undefined without quoting the
 * text, which may be secret.
 */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
