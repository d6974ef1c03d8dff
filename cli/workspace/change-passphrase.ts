import type { Secret } from '../../internal/secret/index.ts';
import { WorkspaceError } from './errors.ts';
import type { WorkspaceLayout } from './layout.ts';
import type { Passphrase } from './passphrase.ts';
import { openSealed, type SecretKind } from './sealed-text.ts';
import { readAsStored, replaceSecretFile, type SecretAccess } from './secret-file.ts';

/** What `changePassphrase` is to do. */
export interface ChangePassphraseOptions {
  /** Files that may have a passphrase; those that do not exist are left out. */
  readonly secrets: readonly { readonly path: string; readonly kind: SecretKind }[];
  /** Decrypt the files instead. */
  readonly remove: boolean;
  /** Value of `--new-passphrase-fd`. */
  readonly descriptor?: number | undefined;
}

interface OpenedFile {
  readonly path: string;
  readonly kind: SecretKind;
  /** undefined: the current passphrase does not open the file. */
  readonly text: Secret<string> | undefined;
  readonly stored: Secret<string>;
  readonly sealed: boolean;
}

/** The secrets of a workspace that can have a passphrase. */
export function secretsOf(layout: WorkspaceLayout): ChangePassphraseOptions['secrets'] {
  return [
    { path: layout.ownerKey, kind: 'owner-key' },
    { path: layout.masterSecret, kind: 'master-secret' },
    { path: layout.identity, kind: 'operator-identity' },
  ];
}

/**
 * Sets, changes or removes the passphrase of files. Each file is replaced atomically, one after the other; when a crash leaves
 * some of them changed, the same command with the same passphrases completes the change. The caller holds the workspace lock.
 * @returns the paths that were changed
 * @throws WorkspaceError `workspace-passphrase-…`, `workspace-key-mode`, `workspace-key-invalid`, `workspace-missing` without files
 */
export async function changePassphrase(
  access: SecretAccess,
  { secrets, remove, descriptor }: ChangePassphraseOptions,
): Promise<readonly string[]> {
  const { files } = access.ports;
  const opened: OpenedFile[] = [];
  for (const { path, kind } of secrets) {
    if ((await files.stat(path)) !== undefined) opened.push(await openWithCurrent(access, path, kind));
  }
  if (opened.length === 0) {
    const names = secrets.map(({ path }) => path).join(', ');
    throw new WorkspaceError('workspace-missing', `none of ${names} exists`);
  }
  const sealed = opened.filter((each) => each.sealed);
  if (sealed.length > 0 && sealed.every(({ text }) => text === undefined)) throw wrongFor(sealed);
  const next = remove
    ? undefined
    : await access.passphrases.create({ descriptor, replaces: sealed.length > 0 });
  // Everything is opened before anything is written: a wrong passphrase changes nothing.
  const plain = await Promise.all(opened.map(async (each) => ({ ...each, text: await textOf(each, next) })));
  const changed: string[] = [];
  for (const { path, kind, text, sealed: wasSealed } of plain) {
    // A killed writer may have left a temporary copy that contains the plain key, or the key under an old passphrase.
    await files.removeTemporary(path);
    if (remove && !wasSealed) continue;
    await replaceSecretFile(files, path, { text, kind, passphrase: next });
    changed.push(path);
  }
  return changed;
}

async function openWithCurrent(access: SecretAccess, path: string, kind: SecretKind): Promise<OpenedFile> {
  const { text: stored, sealed } = await readAsStored(access.ports.files, path);
  if (!sealed) return { path, kind, stored, sealed, text: stored };
  const text = await openOrUndefined(stored, {
    path,
    kind,
    passphrase: await access.passphrases.current(path),
  });
  return { path, kind, stored, sealed, text };
}

/** An interrupted change has encrypted the first files with the new passphrase already. */
async function textOf(opened: OpenedFile, next: Passphrase | undefined): Promise<Secret<string>> {
  const { text, stored, path, kind } = opened;
  if (text !== undefined) return text;
  if (next === undefined) throw wrongFor([opened]);
  return openSealed(stored.reveal(), { path, kind, passphrase: next });
}

async function openOrUndefined(
  stored: Secret<string>,
  by: { readonly path: string; readonly kind: SecretKind; readonly passphrase: Passphrase },
): Promise<Secret<string> | undefined> {
  try {
    return await openSealed(stored.reveal(), by);
  } catch (error) {
    if (error instanceof WorkspaceError && error.code === 'workspace-passphrase-wrong') return undefined;
    throw error;
  }
}

function wrongFor(files: readonly { readonly path: string }[]): WorkspaceError {
  const paths = files.map(({ path }) => path).join(', ');
  return new WorkspaceError(
    'workspace-passphrase-wrong',
    `reading ${paths}: the passphrase does not open it`,
  );
}
