import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { ed25519PubKeyFrom, generateEd25519Key, type MasterSecret } from '../../internal/crypto/index.ts';
import { parseJson, type FilePort } from '../../internal/file/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { WorkspaceError } from './errors.ts';
import type { WorkspaceLayout } from './layout.ts';
import type { Passphrase } from './passphrase.ts';
import { createSecretFile, readSecretFile, type SecretAccess } from './secret-file.ts';

const SECRET_BYTES = 32;

const bytes32 = z.base64().refine((text) => Buffer.from(text, 'base64').length === SECRET_BYTES, '32 bytes');
const masterSecretSchema = z.strictObject({ version: z.literal(1), key: bytes32, salt: bytes32 });

/** The owner key and its public half. */
export interface OwnerKey {
  readonly keyPem: Secret<string>;
  /** Raw 32 bytes in base64, as in `ownerKeys` of provisioning files. */
  readonly pubKeyBase64: string;
}

/** Creates the owner key unless it exists, encrypted if there is a passphrase. Returns whether it was created. */
export async function createOwnerKey(
  files: FilePort,
  layout: WorkspaceLayout,
  passphrase: Passphrase | undefined,
): Promise<boolean> {
  const text = generateEd25519Key();
  return createSecretFile(files, layout.ownerKey, { text, kind: 'owner-key', passphrase });
}

/** Creates the master secret unless it exists, encrypted if there is a passphrase. Returns whether it was created. */
export async function createMasterSecret(
  files: FilePort,
  layout: WorkspaceLayout,
  passphrase: Passphrase | undefined,
): Promise<boolean> {
  const random = (): Uint8Array => new Uint8Array(randomBytes(SECRET_BYTES));
  const text = renderMasterSecret({ key: new Secret(random()), salt: random() });
  return createSecretFile(files, layout.masterSecret, { text, kind: 'master-secret', passphrase });
}

/** @throws WorkspaceError `workspace-missing`, `workspace-key-mode`, `workspace-key-invalid`, `workspace-passphrase-…` */
export async function readOwnerKey(
  access: SecretAccess,
  layout: Pick<WorkspaceLayout, 'ownerKey'>,
): Promise<OwnerKey> {
  const keyPem = await readSecretFile(access, layout.ownerKey, 'owner-key');
  const pubKey = ed25519PubKeyFrom(keyPem);
  if (pubKey === undefined) throw invalid(layout.ownerKey, 'not an Ed25519 key in PKCS#8 PEM');
  return { keyPem, pubKeyBase64: Buffer.from(pubKey).toString('base64') };
}

/** @throws WorkspaceError `workspace-missing`, `workspace-key-mode`, `workspace-key-invalid`, `workspace-passphrase-…` */
export async function readMasterSecret(access: SecretAccess, layout: WorkspaceLayout): Promise<MasterSecret> {
  const text = await readSecretFile(access, layout.masterSecret, 'master-secret');
  return parseMasterSecret(text, layout.masterSecret);
}

/** The content of `master-secret.json`. */
export function renderMasterSecret({ key, salt }: MasterSecret): Secret<string> {
  const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
  const file = { version: 1, key: text(key.reveal()), salt: text(salt) };
  return new Secret(`${JSON.stringify(file, undefined, 2)}\n`);
}

/** Parses the content of `master-secret.json`. @throws WorkspaceError `workspace-key-invalid` */
export function parseMasterSecret(text: Secret<string>, path: string): MasterSecret {
  const parsed = masterSecretSchema.safeParse(parseJson(text.reveal()));
  if (!parsed.success) throw invalid(path, 'not a master secret of version 1');
  const decode = (base64: string): Uint8Array => new Uint8Array(Buffer.from(base64, 'base64'));
  return { key: new Secret(decode(parsed.data.key)), salt: decode(parsed.data.salt) };
}

function invalid(path: string, why: string): WorkspaceError {
  return new WorkspaceError('workspace-key-invalid', `reading ${path}: ${why}`);
}
