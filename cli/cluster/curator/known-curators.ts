import { z } from 'zod';
import { readJson, type FilePort } from '../../../internal/file/index.ts';

const MAX_BYTES = 64 * 1024;
const MAX_ENDPOINTS = 64;
const shape = z.strictObject({
  version: z.literal(1),
  endpoints: z.array(z.string().regex(/^[^\s/@]{1,255}:[0-9]{1,5}$/)).max(MAX_ENDPOINTS),
});

/**
 * "host:port" of the curators that a directory listed last. Those in the result of the init may no longer
 * exist. Empty if the file is damaged.
 */
export async function readKnownCurators(
  files: Pick<FilePort, 'read'>,
  path: string,
): Promise<readonly string[]> {
  // Only a hint: curators are authenticated on each connection.
  return shape.safeParse(await readJson(files, path, MAX_BYTES)).data?.endpoints ?? [];
}

/** Saves the curators of a directory that a curator returned. An empty directory leaves the file unchanged. */
export async function saveKnownCurators(
  files: Pick<FilePort, 'writeAtomic'>,
  path: string,
  directory: readonly { readonly curatorEndpoint: string }[],
): Promise<void> {
  const endpoints = directory.map(({ curatorEndpoint }) => curatorEndpoint).filter((each) => each !== '');
  const parsed = shape.safeParse({ version: 1, endpoints });
  if (!parsed.success || endpoints.length === 0) return;
  await files.writeAtomic(path, `${JSON.stringify(parsed.data)}\n`, { mode: 0o600 });
}
