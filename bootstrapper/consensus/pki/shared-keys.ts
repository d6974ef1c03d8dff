import { dirname } from 'node:path';
import { createHash } from 'node:crypto';
import { readText, type FilePort } from '../../../internal/file/index.ts';
import { trustedPem, signingPair, type KeySet } from '../../../internal/keyset/index.ts';
import { requireText } from './ensure-certificates.ts';
import { ETCD_INSTANCES } from '../etcd-instances.ts';
import { consensusLayout, type ConsensusLayout } from '../consensus-layout.ts';

/**
 * Writes the CAs of both etcd clusters to the paths that `ensurePki` reads, for the current phase of a key
 * rotation. Unchanged files are not written. Call this function before the files are used. May be repeated
 * after a crash.
 */
export async function placeEtcdKeys(files: FilePort, stateDir: string, set: KeySet): Promise<void> {
  const kinds = Object.values(ETCD_INSTANCES).flatMap(({ name, cas }) => {
    const layout = consensusLayout(stateDir, name);
    return [
      [cas.clients, layout.clientsCa, layout.clientsTrustBundle],
      [cas.peers, layout.peersCa, layout.peersTrustBundle],
    ] as const;
  });
  for (const [name, pair, believedFile] of kinds) {
    const [trusted, signs] = [trustedPem(set, name), signingPair(set, name)];
    await files.makeDirectory(dirname(believedFile));
    const isAsMade = (await files.stat(believedFile)) === undefined && isSame(trusted, signs.public);
    await put(files, pair.keyFile, signs.private.reveal(), 0o600);
    await put(files, pair.certFile, signs.public);
    if (!isAsMade) await put(files, believedFile, trusted);
  }
}

/**
 * PEM certificates of the CAs to trust for clients and for peers: the signing CA, or the trust bundle during
 * a rotation.
 */
export async function readTrustBundles(
  files: FilePort,
  layout: ConsensusLayout,
): Promise<{ readonly clients: string; readonly peers: string }> {
  const read = async (path: string, otherwise: string): Promise<string> =>
    (await readText(files, path)) ?? requireText(files, otherwise);
  return {
    clients: await read(layout.clientsTrustBundle, layout.clientsCa.certFile),
    peers: await read(layout.peersTrustBundle, layout.peersCa.certFile),
  };
}

/**
 * SHA-256 of the trust bundles, which etcd reads only when it starts. undefined before the first rotation.
 */
export async function trustDigest(files: FilePort, layout: ConsensusLayout): Promise<string | undefined> {
  if ((await files.stat(layout.clientsTrustBundle)) === undefined) return undefined;
  const hash = createHash('sha256');
  for (const path of [layout.trustedClientsCa, layout.trustedPeersCa])
    hash.update(`${await requireText(files, path)}\0`);
  return hash.digest('hex');
}

async function put(files: FilePort, path: string, text: string, mode = 0o644): Promise<void> {
  const found = await readText(files, path);
  if (found !== undefined && isSame(found, text)) return;
  await files.writeAtomic(path, text, { mode });
}

function isSame(one: string, other: string): boolean {
  return one.trim() === other.trim();
}
