import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { BundleCache, BundleManifest } from '../../internal/bundle/index.ts';
import { imageFiles, parseGoBuildInfo } from '../../internal/bundlebuild/index.ts';

/** A Go program of a bundle, in a file of its own. */
export interface GoProgram {
  /** `kubelet`, or `kube-proxy/usr/local/bin/kube-proxy` in an image. */
  readonly name: string;
  readonly path: string;
}

/** The Go programs of a bundle, one after the other: the file of each is replaced by the next one. */
export async function* goPrograms(
  { components }: BundleManifest,
  { store }: Pick<BundleCache, 'store'>,
  { directory, signal }: { readonly directory: string; readonly signal: AbortSignal },
): AsyncGenerator<GoProgram> {
  const path = join(directory, 'program');
  for (const { name, kind, sha256 } of components) {
    const content = store.read(sha256, { signal });
    const files =
      kind === 'image'
        ? imageFiles(content)
        : kind === 'binary'
          ? [{ path: '', bytes: Buffer.concat(await Array.fromAsync(content)) }]
          : [];
    for await (const file of files) {
      if (parseGoBuildInfo(file.bytes) === undefined) continue;
      await writeFile(path, file.bytes, { mode: 0o700 });
      yield { name: join(name, file.path), path };
    }
  }
}
