import { afterEach, describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { DEFAULT_KUBERNETES_VERSION, verifyComponents, versionsFor } from '../bundle/index.ts';
import { elfFile, FakeBuildTools, FileServer, settleUntil, temporaryDirectory } from '../testing/index.ts';
import { tarFileOf, writeTar } from './archive/tar-writer.ts';
import { buildBundle } from './build-bundle.ts';
import { openBundleCache } from './build-context.ts';
import { pinnedReleases, programsIn, type PinnedRelease } from './download/pinned-releases.ts';
import { RELEASE_HASHES } from './download/release-hashes.ts';
import { fakeBuildContext } from './fake-build-context.ts';

const VERSIONS = versionsFor(DEFAULT_KUBERNETES_VERSION);
const VERSION = { kubernetesVersion: VERSIONS.kubernetes };
const RELEASES = pinnedReleases(VERSIONS, 'amd64');
const KUBERNETES = `https://dl.k8s.io/${VERSIONS.kubernetes}/kubernetes-server-linux-amd64.tar.gz`;
const COREDNS = `https://github.com/coredns/coredns/releases/download/${VERSIONS.coredns}/coredns_${VERSIONS.coredns.slice(1)}_linux_amd64.tgz`;

const opened: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of opened.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

describe('buildBundle() with released programs', () => {
  test('makes the same components as a build from source, and compiles only modules without a pinned release', async () => {
    const place = await startPlace();
    const released = await place.build();
    const other = await startPlace();
    const built = await buildBundle(other.context, VERSION);
    const layout = ({ manifest }: typeof built) =>
      manifest.components.map(({ name, version, kind, scope, references }) => [
        ...[name, version, kind, scope],
        references,
      ]);
    expect(layout(released)).toEqual(layout(built));
    const { store } = openBundleCache(place.context);
    expect(await verifyComponents(store, released.manifest, place.context)).toEqual([]);
    expect(place.compiled()).toEqual([
      'github.com/containerd/containerd/v2',
      'github.com/containernetworking/plugins',
      'github.com/flannel-io/flannel',
      'github.com/opencontainers/runc',
      'go.etcd.io/etcd/server/v3',
      'helm.sh/helm/v4',
    ]);
    expect(place.sourceOf(released, 'kubelet')).toBe(place.at(KUBERNETES));
    expect(place.sourceOf(released, 'kube-proxy')).toBe(place.at(KUBERNETES));
    expect(place.lines()).toEqual([
      "Using upstream's releases of kubernetes, cni-flannel, coredns; building containerd, containerd-shim, runc, cni-plugins, etcd, helm, flannel from source",
    ]);
    expect(await readdir(join(place.context.cache, 'downloads'))).toEqual([]);
    expect(await readdir(join(place.context.cache, 'build'))).toEqual([]);
  });

  test('downloads nothing when an earlier build has made the components, from source or not', async () => {
    const place = await startPlace();
    const first = await place.build();
    const asked = place.server.asked.length;
    expect(await place.build()).toEqual({ ...first, built: [] });
    const other = await startPlace();
    await buildBundle(other.context, VERSION);
    expect((await other.build()).built).toEqual([]);
    expect([place.server.asked.length, other.server.asked.length]).toEqual([asked, 0]);
  });

  test('does not use a file that has another hash than the pinned one, and builds its programs from source', async () => {
    const place = await startPlace();
    place.serve(KUBERNETES, Buffer.from('another archive'));
    const built = await place.build();
    expect(place.sourceOf(built, 'kubelet')).toContain('k8s.io/kubernetes@');
    expect(place.sourceOf(built, 'coredns')).toBe(place.at(COREDNS));
    const { hash = '' } = RELEASES.find(({ url }) => url === KUBERNETES) ?? {};
    expect(place.lines()).toEqual([
      expect.stringMatching(
        /building kubernetes, .* from source\. Not downloaded: .* the file has sha512 [0-9a-f]{128}, pinned is /,
      ),
    ]);
    expect(await readdir(join(place.context.cache, 'downloads'))).not.toContain(hash.slice(0, 64));
  });

  test('builds everything from source, with the same bytes, when no server answers', async () => {
    const place = await startPlace();
    await place.server[Symbol.asyncDispose]();
    const other = await startPlace();
    const [built, source] = [await place.build(), await buildBundle(other.context, VERSION)];
    expect(built.manifest).toEqual(source.manifest);
    expect(place.lines()).toEqual([
      expect.stringMatching(
        /^Building kubernetes, .* from source\. Not downloaded: downloading http:.*ECONNREFUSED/,
      ),
    ]);
  });

  test('builds only the programs of a release that the server does not have', async () => {
    const place = await startPlace();
    place.server.files.delete(new URL(place.at(COREDNS)).pathname);
    const built = await place.build();
    expect(place.sourceOf(built, 'coredns')).toContain('github.com/coredns/coredns@');
    expect(place.sourceOf(built, 'kubelet')).toBe(place.at(KUBERNETES));
    expect(place.lines()).toEqual([expect.stringContaining('HTTP status 404')]);
  });

  test('does not wait longer than ten seconds for a server that never answers', async () => {
    const place = await startPlace();
    const silent = { get: () => new Promise<never>(() => undefined) };
    const context = { ...place.context, ports: { ...place.context.ports, http: silent } };
    const building = buildBundle(context, { ...VERSION, releases: {} });
    const hosts = new Set(RELEASES.map(({ url }) => new URL(url).host));
    await settleUntil(() => place.fake.clock.sleeping === hosts.size);
    await place.fake.clock.advance(9_999);
    expect(place.fake.clock.sleeping).toBe(hosts.size);
    await place.fake.clock.advance(1);
    await building;
    expect(place.lines()).toEqual([expect.stringContaining('timed out')]);
  });

  test('resumes a download at the byte at which the run before was interrupted', async () => {
    const stopping = new AbortController();
    const place = await startPlace(stopping.signal);
    place.server.cuts.set(new URL(place.at(KUBERNETES)).pathname, 1000);
    const { clock } = place.fake;
    const sleep = clock.sleep.bind(clock);
    clock.sleep = (ms, signal) => {
      // 500 ms is the time between two attempts.
      if (ms === 500) stopping.abort(new Error('interrupted'));
      return sleep(ms, signal);
    };
    await expect(place.build()).rejects.toThrow('interrupted');
    const again = await startPlace(undefined, place);
    await again.build();
    expect(place.server.asked).toContainEqual(expect.stringMatching(/kubernetes-server.* bytes=1000-$/));
  });

  test('refuses a file that never ends', async () => {
    const place = await startPlace();
    const endless = {
      get: () => Promise.resolve({ offset: 1024 ** 3, body: onlyChunk(Buffer.from('more')) }),
    };
    const context = { ...place.context, ports: { ...place.context.ports, http: endless } };
    await buildBundle(context, { ...VERSION, releases: { mirror: place.server.url } });
    expect(place.lines()).toEqual([expect.stringContaining('more than 1073741824 bytes')]);
  });
});

describe('the pinned hashes', () => {
  test.each(['v1.35.4', 'v1.36.3', 'v1.37.2'])('cover all programs of Kubernetes %s', (version) => {
    for (const architecture of ['amd64', 'arm64'] as const) {
      const programs = pinnedReleases(versionsFor(version), architecture).flatMap(programsIn);
      expect(programs).toEqual(expect.arrayContaining(['kubelet', 'kube-apiserver', 'flannel']));
    }
  });

  test('are SHA-256 or SHA-512, and each belongs to a release of a supported bundle', () => {
    const used = ['v1.35.4', 'v1.36.3', 'v1.37.2'].flatMap((version) =>
      (['amd64', 'arm64'] as const).flatMap((each) => pinnedReleases(versionsFor(version), each)),
    );
    expect(new Set(used.map(({ url }) => url))).toEqual(new Set(Object.keys(RELEASE_HASHES)));
    for (const hash of Object.values(RELEASE_HASHES)) expect(hash).toMatch(/^([0-9a-f]{64}|[0-9a-f]{128})$/);
  });
});

/** A build machine and a server with upstream's layout, whose files have the hashes that the build pins. */
async function startPlace(
  signal?: AbortSignal,
  shared?: {
    readonly server: FileServer;
    readonly fake: FakeBuildTools;
    readonly hashes: Readonly<Record<string, string>>;
  },
) {
  const server = shared?.server ?? (await FileServer.start());
  const { url: mirror } = server;
  const hashes: Record<string, string> = { ...shared?.hashes };
  const at = (url: string): string => url.replace('https://', `${mirror}/`);
  const serve = (url: string, bytes: Uint8Array): void =>
    void server.files.set(new URL(at(url)).pathname, bytes);
  let fake = shared?.fake;
  if (fake === undefined) {
    opened.push(server);
    for (const release of RELEASES) {
      const bytes = await contentOf(release);
      serve(release.url, bytes);
      const algorithm = release.hash.length === 128 ? 'sha512' : 'sha256';
      hashes[release.url] = createHash(algorithm).update(bytes).digest('hex');
    }
    const directory = await temporaryDirectory();
    opened.push(directory);
    fake = new FakeBuildTools({ directory: directory.path, elf: elfFile() });
    await fake.installToolchain();
  }
  const tools = fake;
  const context = fakeBuildContext(tools, signal);
  return {
    ...{ server, fake: tools, context, hashes, at, serve },
    build: () => buildBundle(context, { ...VERSION, releases: { mirror, hashes } }),
    lines: () =>
      context.reporter.messages.flatMap(({ code, text }) => (code === 'bundle-releases' ? [text] : [])),
    compiled: () => {
      const got = tools.argumentsOf('go').filter(([verb]) => verb === 'get');
      return [...new Set(got.map(([, module = '']) => module.replace(/@.*/, '')))].sort();
    },
    sourceOf: ({ manifest }: Awaited<ReturnType<typeof buildBundle>>, name: string) =>
      manifest.components.find((each) => each.name === name)?.source,
  };
}

async function contentOf({ content }: PinnedRelease): Promise<Buffer> {
  if (content.kind === 'program') return Buffer.from(`released ${content.program}\n`);
  const members = Object.entries(content.members).map(([name, path]) =>
    tarFileOf(path, createHash('sha512').update(name).digest('hex').repeat(20), 0o755),
  );
  const chunks: Uint8Array[] = [];
  for await (const chunk of writeTar(members)) chunks.push(chunk);
  return gzipSync(Buffer.concat(chunks), { level: 0 });
}

async function* onlyChunk(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
