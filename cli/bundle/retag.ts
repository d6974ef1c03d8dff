import { z } from 'zod';
import { BundleMakingError } from './errors.ts';
import { readTar } from './tar-reader.ts';
import { tarFileOf, writeTar, type TarEntry } from './tar-writer.ts';

const MAX_MANIFEST_BYTES = 64 * 1024;
/** They name the image too, and an importer would believe them rather than manifest.json. */
const OTHER_NAMES = new Set(['oci-layout', 'index.json', 'repositories']);

const schema = z.tuple([
  z.object({ Config: z.string(), RepoTags: z.array(z.string()).nullish(), Layers: z.array(z.string()) }),
]);

/**
 * A docker-archive under another reference: upstream's carry the architecture in their name
 * (`kube-proxy-amd64`), kubeadm looks for them without. Layers and configuration stay as they are.
 * @throws BundleMakingError `bundlebuild-archive`
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
      throw new BundleMakingError(
        'bundlebuild-archive',
        `renaming image ${reference}: ${path} is no plain file`,
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
    throw new BundleMakingError(
      'bundlebuild-archive',
      `renaming image ${reference}: there is no manifest.json`,
    );
}

async function withReference(
  content: AsyncIterable<Uint8Array>,
  sizeBytes: number,
  reference: string,
): Promise<string> {
  const doing = `renaming image ${reference}: its manifest.json`;
  if (sizeBytes > MAX_MANIFEST_BYTES)
    throw new BundleMakingError('bundlebuild-archive', `${doing} has ${sizeBytes} bytes`);
  const chunks: Uint8Array[] = [];
  for await (const chunk of content) chunks.push(chunk);
  try {
    const [image] = schema.parse(JSON.parse(Buffer.concat(chunks).toString()));
    return JSON.stringify([{ Config: image.Config, RepoTags: [reference], Layers: image.Layers }]);
  } catch (cause) {
    throw new BundleMakingError('bundlebuild-archive', `${doing} is not one image`, { cause });
  }
}
