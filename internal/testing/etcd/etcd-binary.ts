import { chmod, copyFile, readdir, readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';

interface Manifest {
  readonly components: readonly { readonly name: string; readonly kind: string; readonly sha256: string }[];
}

/**
 * Returns a real etcd program, or one of its tools: from `CLUSTER_ETCD` and its directory, or from the
 * newest bundle in the cache, copied to a path where it may be executed. Throws when there is none, because
 * a test against a real etcd must not be skipped.
 */
export async function findEtcdBinary(
  directory: string,
  name: 'etcd' | 'etcdctl' | 'etcdutl' = 'etcd',
): Promise<string> {
  const named = process.env['CLUSTER_ETCD'];
  if (named !== undefined) return name === 'etcd' ? named : join(dirname(named), name);
  const cache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'cluster');
  const bundles = (await readdir(join(cache, 'bundles')).catch(() => [])).filter((name) =>
    name.endsWith('.json'),
  );
  for (const bundle of bundles.sort().reverse()) {
    const manifest = JSON.parse(await readFile(join(cache, 'bundles', bundle), 'utf8')) as Manifest;
    const etcd = manifest.components.find((each) => each.name === name && each.kind === 'binary');
    if (etcd === undefined) continue;
    // A name that no state directory of a member uses.
    const path = join(directory, `${name}-program`);
    await copyFile(join(cache, 'blobs', 'sha256', etcd.sha256), path); // blobs are 0444
    await chmod(path, 0o755);
    return path;
  }
  throw new Error(`no etcd to test with: set CLUSTER_ETCD or build a bundle into ${cache}`);
}
