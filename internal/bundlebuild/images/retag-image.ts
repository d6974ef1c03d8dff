import { z } from 'zod';
import { BundleBuildError } from '../errors.ts';
import { readTar } from '../archive/tar-reader.ts';
import { tarFileOf, writeTar, type TarEntry } from '../archive/tar-writer.ts';

const MAX_MANIFEST_BYTES = 64 * 1024;
/**
 * These files also contain the image name, and an importer prefers them to manifest.json. So they are left
 * out.
 */
const OTHER_NAMES = new Set(['oci-layout', 'index.json', 'repositories']);

const schema = z.tuple([
  z.object({ Config: z.string(), RepoTags: z.array(z.string()).nullish(), Layers: z.array(z.string()) }),
]);

/**
 * Gives the image of a docker-archive another reference: upstream's names end with the architecture
 * (`kube-proxy-amd64`), but kubeadm expects names without it. Layers and configuration are unchanged.
 * @throws BundleBuildError `bundlebuild-archive`
 */
export async function* retagDockerArchive(
  archive: AsyncIterable<Uint8Array>,
  reference: string,
): AsyncGenerator<Uint8Array> {
  yield* writeTar(retagged(archive, reference));
}

async function* retagged(archive: AsyncIterable<Uint8Array>, reference: string): AsyncGenerator<TarEntry> {
  let found = false;
  for await (const member of readTar(archive)) {
    const path = member.path.replace(/^\.\//, '').replace(/\/$/, '');
    if (OTHER_NAMES.has(path)) continue;
    if (member.type === 'directory') {
      yield { type: 'directory', path, mode: 0o755 };
    } else if (member.type === 'symlink') {
      yield { type: 'symlink', path, target: member.target };
    } else if (member.type !== 'file') {
      throw new BundleBuildError(
        'bundlebuild-archive',
        `retagging image ${reference}: ${path} is not a regular file`,
      );
    } else if (path === 'manifest.json') {
      found = true;
      yield tarFileOf(path, await withReference(member.content, member.sizeBytes, reference));
    } else {
      const { sizeBytes, content } = member;
      yield { type: 'file', path, mode: 0o644, sizeBytes, content: () => content };
    }
  }
  if (!found)
    throw new BundleBuildError(
      'bundlebuild-archive',
      `retagging image ${reference}: no manifest.json in the archive`,
    );
}

async function withReference(
  content: AsyncIterable<Uint8Array>,
  sizeBytes: number,
  reference: string,
): Promise<string> {
  const doing = `retagging image ${reference}`;
  if (sizeBytes > MAX_MANIFEST_BYTES)
    throw new BundleBuildError(
      'bundlebuild-archive',
      `${doing}: manifest.json has ${sizeBytes} bytes, at most ${MAX_MANIFEST_BYTES} are allowed`,
    );
  const bytes = Buffer.concat(await Array.fromAsync(content));
  try {
    const [image] = schema.parse(JSON.parse(bytes.toString()));
    return JSON.stringify([{ Config: image.Config, RepoTags: [reference], Layers: image.Layers }]);
  } catch (cause) {
    throw new BundleBuildError(
      'bundlebuild-archive',
      `${doing}: manifest.json does not describe exactly one image`,
      {
        cause,
      },
    );
  }
}
