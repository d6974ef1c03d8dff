import { z } from 'zod';
import { ed25519PubKeyFrom, generateEd25519Key } from '../../internal/crypto/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { WorkspaceError } from './errors.ts';
import { readSecretFile } from './secret-file.ts';

const kubernetesSchema = z.strictObject({
  clusterName: z.string(),
  /** Whom API servers are known by. */
  caPem: z.string(),
  /** "https://HOST:PORT". */
  server: z.string(),
});

/** What a later version grants beside is left out. */
const grantSchema = z.object({
  version: z.literal(1),
  /** As the cluster has them. */
  name: z.string(),
  role: z.string(),
  clusterId: z.string(),
  clusterCaPem: z.string(),
  /** For the operator's key. */
  certificatePem: z.string(),
  /** "host:port" of curators when it was granted. */
  curatorEndpoints: z.array(z.string().regex(/^[^\s/@]{1,255}:[0-9]{1,5}$/)).max(64),
  /** For owners: what their kubeconfig is made of, beside what a curator signs. */
  kubernetes: kubernetesSchema.optional(),
  /** For owners: who made whom one, from the one who made the cluster on, base64. */
  vouchers: z
    .array(z.strictObject({ by: z.base64(), signature: z.base64() }))
    .max(16)
    .optional(),
});

const identitySchema = z.strictObject({
  version: z.literal(1),
  name: z.string(),
  /** Ed25519, PKCS#8 PEM. Made here; it never leaves this file. */
  keyPem: z.string(),
  /** Absent until an owner has answered. */
  grant: grantSchema.optional(),
});

/** What an owner hands back: everything that an operator needs beside the own key. No secret is in it. */
export type OperatorGrant = z.output<typeof grantSchema>;

/** Where API servers are and how they are known. */
export type KubernetesEndpoint = z.output<typeof kubernetesSchema>;

/** An operator's own identity file. */
export interface OperatorIdentity {
  readonly name: string;
  readonly keyPem: Secret<string>;
  readonly grant: OperatorGrant | undefined;
}

/** Makes an identity with a new key, or answers the one that is there. Nothing that exists is changed. */
export async function createIdentity(
  files: FilePort,
  path: string,
  name: string,
): Promise<OperatorIdentity & { readonly created: boolean }> {
  const identity = { name, keyPem: generateEd25519Key(), grant: undefined };
  if (await files.createExclusive(path, render(identity), { mode: 0o600 }))
    return { ...identity, created: true };
  const found = await readIdentity(files, path);
  if (found.name === name) return { ...found, created: false };
  throw new WorkspaceError(
    'workspace-identity-invalid',
    `making an identity for ${name}: ${path} is that of ${found.name}`,
  );
}

/** @throws WorkspaceError `workspace-missing`, `workspace-key-mode`, `workspace-identity-invalid` */
export async function readIdentity(files: FilePort, path: string): Promise<OperatorIdentity> {
  const parsed = identitySchema.safeParse(jsonFrom(await readSecretFile(files, path)));
  if (!parsed.success) throw invalid(path, 'no identity of version 1');
  const { name, grant } = parsed.data;
  const keyPem = new Secret(parsed.data.keyPem);
  if (ed25519PubKeyFrom(keyPem) === undefined) throw invalid(path, 'its key is no Ed25519 key in PKCS#8 PEM');
  return { name, keyPem, grant };
}

/** Puts an owner's answer into the file; what is in it stays. */
export async function saveGrant(
  files: FilePort,
  path: string,
  identity: OperatorIdentity & { readonly grant: OperatorGrant },
): Promise<void> {
  await files.writeAtomic(path, render(identity), { mode: 0o600 });
}

export function renderGrant(grant: OperatorGrant): string {
  return `${JSON.stringify(grantSchema.parse(grant), undefined, 2)}\n`;
}

/** @throws WorkspaceError `workspace-identity-invalid` */
export function parseGrant(text: string, path: string): OperatorGrant {
  const parsed = grantSchema.safeParse(jsonFrom(text));
  if (parsed.success) return parsed.data;
  throw invalid(path, 'not what `cluster operator add` writes');
}

function render({ name, keyPem, grant }: OperatorIdentity): string {
  const file = { version: 1, name, keyPem: keyPem.reveal(), ...(grant === undefined ? {} : { grant }) };
  return `${JSON.stringify(file, undefined, 2)}\n`;
}

function jsonFrom(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // the schema refuses it, and no secret gets into a message
  }
}

function invalid(path: string, why: string): WorkspaceError {
  return new WorkspaceError('workspace-identity-invalid', `reading ${path}: ${why}`);
}
