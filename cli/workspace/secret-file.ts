import { readText, type FilePort } from '../../internal/file/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { WorkspaceError } from './errors.ts';
import type { Passphrase, PassphraseSource } from './passphrase.ts';
import { isSealed, openSealed, sealText, type SecretKind } from './sealed-text.ts';

const MAX_KEY_BYTES = 256 * 1024;
const OTHERS = 0o077;

/** What is needed to read the secrets of a workspace. Every `CommandContext` has it. */
export interface SecretAccess {
  readonly ports: { readonly files: FilePort };
  readonly passphrases: PassphraseSource;
}

/** A secret to write. */
interface WrittenSecret {
  readonly text: Secret<string>;
  readonly kind: SecretKind;
  /** Encrypts the file; undefined: it is written as plain text. */
  readonly passphrase?: Passphrase | undefined;
}

/**
 * Reads a file with a secret, and decrypts it with the passphrase of this run if it is encrypted. Refuses a file that group or
 * others can access.
 * @throws WorkspaceError `workspace-missing`, `workspace-key-mode`, `workspace-key-invalid`, `workspace-passphrase-…`
 */
export async function readSecretFile(
  access: SecretAccess,
  path: string,
  kind: SecretKind,
): Promise<Secret<string>> {
  const { text, sealed } = await readAsStored(access.ports.files, path);
  if (!sealed) return text;
  const passphrase = await access.passphrases.current(path);
  return openSealed(text.reveal(), { kind, passphrase, path });
}

/** The file as it is on disk, and whether it is encrypted. @throws WorkspaceError `workspace-missing`, `workspace-key-mode` */
export async function readAsStored(
  files: FilePort,
  path: string,
): Promise<{ readonly text: Secret<string>; readonly sealed: boolean }> {
  const text = await readPrivateFile(files, path);
  if (text === undefined) throw new WorkspaceError('workspace-missing', `${path} does not exist`);
  return { text, sealed: isSealed(text.reveal()) };
}

/** A file that only its owner can access; undefined if it does not exist. @throws WorkspaceError `workspace-key-mode` */
export async function readPrivateFile(files: FilePort, path: string): Promise<Secret<string> | undefined> {
  const text = await readText(files, path, MAX_KEY_BYTES);
  if (text === undefined) return undefined;
  const mode = (await files.stat(path))?.mode ?? 0;
  if ((mode & OTHERS) !== 0) {
    throw new WorkspaceError(
      'workspace-key-mode',
      `permissions 0${mode.toString(8)} of ${path} are too open (need 0600)`,
    );
  }
  return new Secret(text);
}

/** Whether the file exists and is encrypted. */
export async function isSealedFile(files: FilePort, path: string): Promise<boolean> {
  const text = await readText(files, path, MAX_KEY_BYTES);
  return text !== undefined && isSealed(text);
}

/**
 * Creates a file with a secret (0600), encrypted if there is a passphrase. Returns false when the file exists, which is then not
 * changed.
 */
export async function createSecretFile(
  files: FilePort,
  path: string,
  secret: WrittenSecret,
): Promise<boolean> {
  if ((await files.stat(path)) !== undefined) return false; // avoids a needless derivation of a key
  return files.createExclusive(path, await asStored(secret), { mode: 0o600 });
}

/** Replaces a file with a secret (0600). A crash leaves the old or the new one. No passphrase: it is written as plain text. */
export async function replaceSecretFile(files: FilePort, path: string, secret: WrittenSecret): Promise<void> {
  await files.writeAtomic(path, await asStored(secret), { mode: 0o600 });
}

async function asStored({ text, kind, passphrase }: WrittenSecret): Promise<string> {
  return passphrase === undefined ? text.reveal() : sealText(text, { kind, passphrase });
}
