import { z } from 'zod';
import { ed25519PubKeyFrom, generateEd25519Key } from '../../internal/crypto/index.ts';
import { parseJson } from '../../internal/file/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { WorkspaceError } from './errors.ts';
import {
  createSecretFile,
  isSealedFile,
  readSecretFile,
  replaceSecretFile,
  type SecretAccess,
} from './secret-file.ts';

const kubernetesSchema = z.strictObject({
  clusterName: z.string(),
  /** CA of the API servers. */
  caPem: z.string(),
  /** "https://HOST:PORT". */
  server: z.string(),
});

/** Members of later versions are ignored. */
const grantSchema = z.object({
  version: z.literal(1),
  /** Name and role in the records of the cluster. */
  name: z.string(),
  role: z.string(),
  clusterId: z.string(),
  clusterCaPem: z.string(),
  /** Generation of the shared keys to which the CA belongs, if this CA has replaced another CA. */
  clusterCaGeneration: z.int().min(2).optional(),
  /**
   * Raw Ed25519 keys, base64, of the first owners. A new CA of the cluster is trusted if a chain of signatures leads
   * from them to an owner who signed it.
   */
  ownerKeys: z.array(z.base64()).min(1).max(16).optional(),
  /** Certificate for the operator's key. */
  certificatePem: z.string(),
  /** "host:port" of the curators at the time of the grant. */
  curatorEndpoints: z.array(z.string().regex(/^[^\s/@]{1,255}:[0-9]{1,5}$/)).max(64),
  /** Server and CA of the kubeconfig. */
  kubernetes: kubernetesSchema.optional(),
  /** For owners only: the chain of owners from the creator of the cluster to this one, base64. */
  vouchers: z
    .array(z.strictObject({ by: z.base64(), signature: z.base64() }))
    .max(16)
    .optional(),
});

const identitySchema = z.strictObject({
  version: z.literal(1),
  name: z.string(),
  /** Ed25519, PKCS#8 PEM. It never leaves this file. */
  keyPem: z.string(),
  /** Absent until the grant of an owner was accepted. */
  grant: grantSchema.optional(),
});

/** What an operator needs besides their own key; created by an owner. Contains no secret. */
export type OperatorGrant = z.output<typeof grantSchema>;

/** Address and CA of the Kubernetes API. */
export type KubernetesEndpoint = z.output<typeof kubernetesSchema>;

/** The identity of an operator: a key and, once an owner has added the operator, a grant. */
export interface OperatorIdentity {
  readonly name: string;
  readonly keyPem: Secret<string>;
  readonly grant: OperatorGrant | undefined;
}

/**
 * Creates an identity with a new key, or returns the existing one.
 * @param options.encrypt encrypt a new file with a passphrase
 * @throws WorkspaceError `workspace-identity-invalid`, `workspace-not-encrypted`, `workspace-passphrase-…`
 */
export async function createIdentity(
  access: SecretAccess,
  path: string,
  options: { readonly name: string; readonly encrypt: boolean },
): Promise<OperatorIdentity & { readonly created: boolean }> {
  const { files } = access.ports;
  const { name, encrypt } = options;
  if ((await files.stat(path)) === undefined) {
    const identity = { name, keyPem: generateEd25519Key(), grant: undefined };
    const passphrase = encrypt ? await access.passphrases.create({ replaces: false }) : undefined;
    const text = render(identity);
    if (await createSecretFile(files, path, { text, kind: 'operator-identity', passphrase }))
      return { ...identity, created: true };
  }
  if (encrypt && !(await isSealedFile(files, path)))
    throw new WorkspaceError('workspace-not-encrypted', `${path} exists and is not encrypted`);
  const found = await readIdentity(access, path);
  if (found.name === name) return { ...found, created: false };
  throw new WorkspaceError(
    'workspace-identity-invalid',
    `${path} is the identity of ${found.name}, not of ${name}`,
  );
}

/**
 * Reads an identity file.
 * @throws WorkspaceError `workspace-identity-missing`, `workspace-key-mode`, `workspace-identity-invalid`, `workspace-passphrase-…`
 */
export async function readIdentity(access: SecretAccess, path: string): Promise<OperatorIdentity> {
  if ((await access.ports.files.stat(path)) === undefined)
    throw new WorkspaceError('workspace-identity-missing', `${path} does not exist`);
  const text = await readSecretFile(access, path, 'operator-identity');
  const parsed = identitySchema.safeParse(parseJson(text.reveal()));
  if (!parsed.success) throw invalid(path, 'not an identity file of version 1');
  const { name, grant } = parsed.data;
  const keyPem = new Secret(parsed.data.keyPem);
  if (ed25519PubKeyFrom(keyPem) === undefined) throw invalid(path, 'key is not an Ed25519 key in PKCS#8 PEM');
  return { name, keyPem, grant };
}

/** Adds a grant to the identity file, which stays encrypted if it is. */
export async function saveGrant(
  access: SecretAccess,
  path: string,
  identity: OperatorIdentity & { readonly grant: OperatorGrant },
): Promise<void> {
  const { files } = access.ports;
  const passphrase = (await isSealedFile(files, path)) ? await access.passphrases.current(path) : undefined;
  const text = render(identity);
  await replaceSecretFile(files, path, { text, kind: 'operator-identity', passphrase });
}

/** The grant file, JSON. */
export function renderGrant(grant: OperatorGrant): string {
  return `${JSON.stringify(grantSchema.parse(grant), undefined, 2)}\n`;
}

/** Parses a grant file. @throws WorkspaceError `workspace-identity-invalid` */
export function parseGrant(text: string, path: string): OperatorGrant {
  const parsed = grantSchema.safeParse(parseJson(text));
  if (parsed.success) return parsed.data;
  throw invalid(path, 'not a grant file of `cluster operator add`');
}

/** Whether a text is a grant of this operator of this cluster. */
export function isGrantOf(text: string, of: Pick<OperatorGrant, 'name' | 'clusterId'>): boolean {
  const { data } = grantSchema.safeParse(parseJson(text));
  return data?.name === of.name && data.clusterId === of.clusterId;
}

function render({ name, keyPem, grant }: OperatorIdentity): Secret<string> {
  const file = { version: 1, name, keyPem: keyPem.reveal(), ...(grant === undefined ? {} : { grant }) };
  return new Secret(`${JSON.stringify(file, undefined, 2)}\n`);
}

function invalid(path: string, why: string): WorkspaceError {
  return new WorkspaceError('workspace-identity-invalid', `reading ${path}: ${why}`);
}
