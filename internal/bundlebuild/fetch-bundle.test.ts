import { describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { DEFAULT_KUBERNETES_VERSION, verifyComponents, versionsFor } from '../bundle/index.ts';
import { elfFile, FakeBuildTools, FileServer, temporaryDirectory } from '../testing/index.ts';
import { openBundleCache } from './build-context.ts';
import { fakeBuildContext } from './fake-build-context.ts';
import { fetchBundle } from './fetch-bundle.ts';
import { readTar } from './archive/tar-reader.ts';
import { tarFileOf, writeTar } from './archive/tar-writer.ts';
import { upstreamFiles, type UpstreamFile } from './download/upstream-files.ts';

const signal = new AbortController().signal;
const VERSIONS = versionsFor(DEFAULT_KUBERNETES_VERSION);
const KUBELET = `/dl.k8s.io/release/${VERSIONS.kubernetes}/bin/linux/amd64/kubelet`;

test('upstreamFiles() has the URLs at which each project publishes its files', () => {
  const files = upstreamFiles(VERSIONS, 'amd64');
  const github = 'https://github.com';
  expect(files.map((each) => [each.url, each.checksumUrl])).toEqual(
    expect.arrayContaining([
      ...['kubeadm', 'kubelet', 'kubectl', 'kube-apiserver.tar', 'kube-proxy.tar'].map((name) => {
        const url = `https://dl.k8s.io/release/${VERSIONS.kubernetes}/bin/linux/amd64/${name}`;
        return [url, `${url}.sha256`];
      }),
      [
        `${github}/etcd-io/etcd/releases/download/${VERSIONS.etcd}/etcd-${VERSIONS.etcd}-linux-amd64.tar.gz`,
        `${github}/etcd-io/etcd/releases/download/${VERSIONS.etcd}/SHA256SUMS`,
      ],
      [
        `${github}/opencontainers/runc/releases/download/${VERSIONS.runc}/runc.amd64`,
        `${github}/opencontainers/runc/releases/download/${VERSIONS.runc}/runc.sha256sum`,
      ],
      [
        `${github}/containernetworking/plugins/releases/download/${VERSIONS.cniPlugins}/cni-plugins-linux-amd64-${VERSIONS.cniPlugins}.tgz`,
        `${github}/containernetworking/plugins/releases/download/${VERSIONS.cniPlugins}/cni-plugins-linux-amd64-${VERSIONS.cniPlugins}.tgz.sha256`,
      ],
      [
        `https://get.helm.sh/helm-${VERSIONS.helm}-linux-amd64.tar.gz`,
        `https://get.helm.sh/helm-${VERSIONS.helm}-linux-amd64.tar.gz.sha256sum`,
      ],
    ]),
  );
});

describe('fetchBundle()', () => {
  test('builds from source only the components that no project publishes', async () => {
    await using place = await startPlace();
    const { manifest } = await place.fetch();
    expect(manifest.components).toHaveLength(28);
    expect(await verifyComponents(openBundleCache(place.context).store, manifest, { signal })).toEqual([]);
    const source = (name: string) => manifest.components.find((each) => each.name === name)?.source;
    expect(source('kubelet')).toBe(`${place.server.url}${KUBELET}`);
    expect(source('coredns')).toContain(`coredns_${VERSIONS.coredns.slice(1)}_linux_amd64.tgz`);
    const built = place.fake.argumentsOf('go').filter(([verb]) => verb === 'get');
    expect(built).toEqual([['get', `github.com/flannel-io/flannel@${VERSIONS.flannel}`]]);
  });

  test('gives images the references that kubeadm expects', async () => {
    await using place = await startPlace();
    const { manifest } = await place.fetch();
    const image = manifest.components.find((each) => each.name === 'kube-apiserver');
    const archive = openBundleCache(place.context).store.read(image?.sha256 ?? '', { signal });
    for await (const { path, content } of readTar(archive)) {
      if (path !== 'manifest.json') continue;
      expect(JSON.parse((await collected(content)).toString())).toMatchObject([
        { RepoTags: [`registry.k8s.io/kube-apiserver:${VERSIONS.kubernetes}`] },
      ]);
      return;
    }
    throw new Error('there is no manifest.json');
  });

  test('writes every hash into the lock file, and downloads nothing again when all files are stored', async () => {
    await using place = await startPlace();
    const first = await place.fetch();
    const lock = JSON.parse(await readFile(place.lockFile, 'utf8')) as { files: Record<string, string> };
    expect(Object.keys(lock.files)).toHaveLength(upstreamFiles(VERSIONS, 'amd64').length);
    expect(lock.files[`${place.server.url}${KUBELET}`]).toBe(sha256(place.server.files.get(KUBELET)));
    const asked = place.server.asked.length;
    const second = await place.fetch();
    expect(second).toEqual({ ...first, built: [] });
    expect(place.server.asked).toHaveLength(asked);
  });

  test('gives the same manifest on another machine', async () => {
    await using place = await startPlace();
    await using other = await startPlace(place.server);
    expect((await other.fetch()).manifest).toEqual((await place.fetch()).manifest);
  });

  test('refuses a file whose hash differs from the published one, and does not write its hash into the lock file', async () => {
    await using place = await startPlace();
    place.server.files.set(`${KUBELET}.sha256`, Buffer.from('a'.repeat(64)));
    await expect(place.fetch()).rejects.toMatchObject({ code: 'bundlebuild-checksum' });
    expect(await readFile(place.lockFile, 'utf8')).not.toContain(`${KUBELET}"`);
  });

  test('refuses a release file that has changed since its hash was written into the lock file', async () => {
    await using place = await startPlace();
    await place.fetch();
    const before = sha256(place.server.files.get(KUBELET));
    await openBundleCache(place.context).store.remove(before);
    place.server.files.set(KUBELET, Buffer.from('another kubelet'));
    place.server.files.set(`${KUBELET}.sha256`, Buffer.from(sha256(Buffer.from('another kubelet'))));
    await expect(place.fetch()).rejects.toMatchObject({
      code: 'bundlebuild-source-changed',
      details: { locked: before },
    });
  });

  test('refuses a damaged file that an earlier run stored', async () => {
    await using place = await startPlace();
    await place.fetch();
    const path = await openBundleCache(place.context).store.path(sha256(place.server.files.get(KUBELET)));
    await place.context.ports.files.writeAtomic(path, 'something else');
    await expect(place.fetch()).rejects.toMatchObject({ code: 'bundle-blob-corrupt' });
  });

  test('reports the name of a program that is missing in an archive', async () => {
    await using place = await startPlace();
    const path = `/get.helm.sh/helm-${VERSIONS.helm}-linux-amd64.tar.gz`;
    const empty = gzipSync(await collected(writeTar([tarFileOf('README', '')])));
    place.server.files.set(path, empty);
    place.server.files.set(`${path}.sha256sum`, Buffer.from(`${sha256(empty)}  ${basename(path)}\n`));
    await expect(place.fetch()).rejects.toMatchObject({
      code: 'bundlebuild-archive',
      message: expect.stringContaining('no helm in it'),
    });
  });

  test('refuses a file that has the published hash but is not an archive', async () => {
    await using place = await startPlace();
    const path = `/get.helm.sh/helm-${VERSIONS.helm}-linux-amd64.tar.gz`;
    place.server.files.set(path, Buffer.from('no gzip'));
    place.server.files.set(
      `${path}.sha256sum`,
      Buffer.from(`${sha256(Buffer.from('no gzip'))}  ${basename(path)}\n`),
    );
    await expect(place.fetch()).rejects.toMatchObject({ code: 'bundlebuild-archive' });
  });
});

async function startPlace(upstream?: FileServer) {
  const directory = await temporaryDirectory();
  const server = upstream ?? (await FileServer.start());
  if (upstream === undefined) await publish(server);
  const fake = new FakeBuildTools({ directory: directory.path, elf: elfFile() });
  await fake.installToolchain();
  const context = fakeBuildContext(fake);
  const lockFile = join(directory.path, 'bundle.lock.json');
  return {
    server,
    fake,
    context,
    lockFile,
    fetch: () =>
      fetchBundle(context, { kubernetesVersion: VERSIONS.kubernetes, lockFile, mirror: server.url }),
    async [Symbol.asyncDispose]() {
      if (upstream === undefined) await server[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
}

/**
 * Fills a server with the layout of upstream: files, and their hashes in the form that each project uses.
 */
async function publish(server: FileServer): Promise<void> {
  for (const file of upstreamFiles(VERSIONS, 'amd64', server.url)) {
    const bytes = await contentOf(file);
    const name = basename(file.url);
    const isBare = file.url.includes('dl.k8s.io');
    const sums = isBare ? sha256(bytes) : `${'0'.repeat(64)}  other\n${sha256(bytes)}  ${name}\n`;
    server.files.set(new URL(file.url).pathname, bytes);
    server.files.set(new URL(file.checksumUrl).pathname, Buffer.from(sums));
  }
}

async function contentOf({ content }: UpstreamFile): Promise<Buffer> {
  switch (content.kind) {
    case 'program':
      return Buffer.from(`upstream ${content.program}\n`);
    case 'archive': {
      const members = Object.entries(content.members).map(([name, path]) =>
        tarFileOf(path, `upstream ${name}\n`, 0o755),
      );
      return gzipSync(await collected(writeTar([tarFileOf('LICENSE', 'free'), ...members])));
    }
    case 'image': {
      const reference = content.reference.replace(':', '-amd64:');
      const image = { Config: 'config.json', RepoTags: [reference], Layers: ['1/layer.tar'] };
      return collected(
        writeTar([
          tarFileOf('1/layer.tar', content.component),
          tarFileOf('config.json', '{}'),
          tarFileOf('manifest.json', JSON.stringify([image])),
        ]),
      );
    }
  }
}

async function collected(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return Buffer.concat(all);
}

function sha256(bytes: Uint8Array | undefined): string {
  return createHash('sha256')
    .update(bytes ?? '')
    .digest('hex');
}
