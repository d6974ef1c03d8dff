import { z } from 'zod';
import { readJson, type FilePort } from '../../../internal/file/index.ts';
import type { KnownClusterCa } from '../../../internal/keyset/index.ts';
import type { Floor } from '../../../internal/ownerdocument/index.ts';
import { ClusterError } from '../errors.ts';

const MAX_BYTES = 64 * 1024;
const floor = z.strictObject({ serial: z.int().min(0), sha256: z.string().optional() });
const shape = z.strictObject({
  version: z.literal(1),
  /**
   * The ID of the init, or the SHA-256 of the operator's certificate, that provided the first CA. With another value,
   * this file is ignored.
   */
  of: z.string(),
  caPem: z.string().min(1),
  generation: z.int().min(1),
  floors: z.strictObject({ owners: floor.optional(), keys: floor.optional() }),
  kubernetesCaPem: z.string().min(1).optional(),
});

/** The CAs that a workspace trusts. */
export interface WorkspaceCa extends KnownClusterCa {
  readonly trustedPem: string;
  /** The newest owner documents that the workspace has accepted; older ones are refused. */
  readonly floors: { readonly owners?: Floor | undefined; readonly keys?: Floor | undefined };
  /** PEM bundle of the CAs of API servers that have replaced the CAs from the init or from the operator's grant file. */
  readonly kubernetesCaPem?: string | undefined;
}

/**
 * The file with the CAs that the workspace or an operator has adopted. `of` is the ID of the init, or the SHA-256 of
 * the operator's certificate, that provided the first CA.
 */
export interface CaFile {
  readonly path: string;
  readonly of: string;
}

/**
 * The newest CAs that the workspace has adopted; else `first`, the CA from the init or from the operator's grant file.
 * @throws ClusterError `cluster-ca-file-invalid`: without the file, the workspace would trust a CA that was replaced
 */
export async function readWorkspaceCa(
  files: Pick<FilePort, 'read'>,
  { path, of }: CaFile,
  first: KnownClusterCa & { readonly trustedPem: string },
): Promise<WorkspaceCa> {
  const json = await readJson(files, path, MAX_BYTES).catch((cause: unknown) => {
    throw new ClusterError('cluster-ca-file-invalid', `reading ${path}`, { cause });
  });
  const parsed = shape.safeParse(json);
  if (json !== undefined && !parsed.success)
    throw new ClusterError('cluster-ca-file-invalid', `reading ${path}`);
  if (parsed.data?.of !== of) return { ...first, floors: {} };
  const { caPem: trustedPem, generation, floors, kubernetesCaPem } = parsed.data;
  return { trustedPem, generation, floors, kubernetesCaPem };
}

/** Saves the CAs that the workspace trusts from now on. */
export async function saveWorkspaceCa(
  files: Pick<FilePort, 'writeAtomic'>,
  { path, of }: CaFile,
  { trustedPem: caPem, generation, floors, kubernetesCaPem }: WorkspaceCa,
): Promise<void> {
  const text = JSON.stringify(shape.parse({ version: 1, of, caPem, generation, floors, kubernetesCaPem }));
  await files.writeAtomic(path, `${text}\n`, { mode: 0o600 });
}
