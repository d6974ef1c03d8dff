import { z } from 'zod';
import { readJson, type FilePort } from '../../../internal/file/index.ts';

const MAX_BYTES = 64 * 1024;
const MAX_ENDPOINTS = 64;
const shape = z.strictObject({
  version: z.literal(1),
  endpoints: z.array(z.string().regex(/^[^\s/@]{1,255}:[0-9]{1,5}$/)).max(MAX_ENDPOINTS),
  /** Highest epoch that a curator has reported. Each recovery of the quorum raises it. */
  epoch: z.int().positive().default(1),
});

/** The part of a cluster's information that is saved. */
interface SeenCluster {
  readonly epoch: bigint;
  readonly directory: readonly { readonly curatorEndpoint: string }[];
}

/**
 * "host:port" of the curators that a directory listed last. Those in the result of the init may no longer
 * exist. Empty if the file is damaged.
 */
export async function readKnownCurators(
  files: Pick<FilePort, 'read'>,
  path: string,
): Promise<readonly string[]> {
  // Only a hint: curators are authenticated on each connection.
  return (await readSeen(files, path)).endpoints;
}

/** The highest epoch that a curator has reported to this caller; 1 if the file is missing or damaged. */
export async function readSeenEpoch(files: Pick<FilePort, 'read'>, path: string): Promise<number> {
  return (await readSeen(files, path)).epoch;
}

/** Saves the epoch and the curators that a curator returned. With an empty directory, the curators stay. */
export async function saveKnownCurators(
  files: Pick<FilePort, 'read' | 'writeAtomic'>,
  path: string,
  { epoch, directory }: SeenCluster,
): Promise<void> {
  const before = await readSeen(files, path);
  const endpoints = directory.map(({ curatorEndpoint }) => curatorEndpoint).filter((each) => each !== '');
  const parsed = shape.safeParse({
    version: 1,
    endpoints: endpoints.length === 0 ? before.endpoints : endpoints,
    epoch: Math.max(before.epoch, Number(epoch)),
  });
  if (!parsed.success || (parsed.data.endpoints.length === 0 && parsed.data.epoch === before.epoch)) return;
  await files.writeAtomic(path, `${JSON.stringify(parsed.data)}\n`, { mode: 0o600 });
}

async function readSeen(files: Pick<FilePort, 'read'>, path: string) {
  const found = shape.safeParse(await readJson(files, path, MAX_BYTES));
  return found.data ?? { endpoints: [], epoch: 1 };
}
