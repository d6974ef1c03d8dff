import { describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { DEFAULT_KUBERNETES_VERSION } from '../../internal/bundle/index.ts';
import { buildBundle, openBundleCache } from '../../internal/bundlebuild/index.ts';
import { fakeBuildContext } from '../../internal/bundlebuild/fake-build-context.ts';
import { DiskFiles } from '../../internal/file/index.ts';
import { elfFile, FakeBuildTools, temporaryDirectory } from '../../internal/testing/index.ts';
import type { CommandContext } from '../app/command.ts';
import { RecordingHost } from '../host/fake-host.ts';
import { ownSources, runBundleList, runBundleOutdated, runBundleSbom, runBundleVerify } from './commands.ts';
import { noPassphrases } from '../workspace/fake-passphrases.ts';

const VERSION = { kubernetesVersion: DEFAULT_KUBERNETES_VERSION };

describe('ownSources()', () => {
  test.each([
    {
      name: 'a checkout',
      given: '/src/cli/bundle/commands.ts',
      want: { charts: '/src/cli/charts', programs: '/src/internal/bundlebuild/programs' },
    },
    {
      name: 'a package',
      given: '/usr/lib/cluster-cli/main.mjs',
      want: { charts: '/usr/lib/cluster-cli/charts', programs: '/usr/lib/cluster-cli/programs' },
    },
  ])('finds charts and programs in $name', ({ given, want }) => {
    expect(ownSources(given)).toEqual(want);
  });
});

describe('bundle verify', () => {
  test('passes for a complete bundle', async () => {
    await using place = await startPlace();
    expect(await runBundleVerify(place.command, VERSION)).toBe('ok');
    expect(place.host.answered).toMatchObject({ components: 28, findings: [] });
  });

  test('lists a damaged file and returns unhealthy', async () => {
    await using place = await startPlace();
    await place.context.ports.files.writeAtomic(await place.pathOf('kubelet'), 'flipped');
    expect(await runBundleVerify(place.command, VERSION)).toBe('unhealthy');
    expect(place.host.answered).toMatchObject({
      findings: [{ name: 'kubelet', code: 'bundle-blob-corrupt' }],
    });
  });

  test('fails when there is no bundle', async () => {
    await using place = await startPlace();
    await place.context.ports.files.remove(place.manifestPath);
    await expect(runBundleVerify(place.command, VERSION)).rejects.toMatchObject({ code: 'bundle-not-found' });
  });
});

describe('bundle outdated', () => {
  const index = (vulns: readonly object[]) =>
    JSON.stringify([{ path: 'github.com/opencontainers/runc', vulns }]);
  /** Serves the module proxy and the vulnerability database: texts by the end of the path, and empty lists. */
  const run = async (texts: Readonly<Record<string, string>>) => {
    const server = createServer(({ url = '' }, response) => {
      const found = Object.entries(texts).find(([end]) => url.endsWith(end))?.[1];
      const isMissing = found === undefined && !url.endsWith('/@v/list');
      response.writeHead(isMissing ? 404 : 200).end(found);
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    try {
      await using place = await startPlace();
      const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      const env = { ...place.command.env, GOPROXY: `${at}/proxy`, GOVULNDB: `${at}/database` };
      const exit = await runBundleOutdated({ ...place.command, env });
      return { exit, text: place.text() };
    } finally {
      server.closeAllConnections();
      server.close();
    }
  };

  test('passes if there is no newer release and no vulnerability', async () => {
    expect((await run({ 'index/modules.json': index([]) })).exit).toBe('ok');
  });

  test('returns unreachable and the reason if vulnerabilities are unknown', async () => {
    const { exit, text } = await run({});
    expect(exit).toBe('unreachable');
    expect(text).toMatch(/^! vulnerabilities not checked: .*HTTP status 404/m);
  });

  test('returns unhealthy for a vulnerability, and for a new minor of Kubernetes', async () => {
    const vulnerable = await run({ 'index/modules.json': index([{ id: 'GO-7' }]) });
    expect(vulnerable).toMatchObject({ exit: 'unhealthy', text: expect.stringContaining('GO-7') as unknown });
    const released = { 'index/modules.json': index([]), '/k8s.io/kubernetes/@v/list': 'v1.99.0' };
    expect(await run(released)).toMatchObject({
      exit: 'unhealthy',
      text: expect.stringMatching(/^k8s\.io\/kubernetes .* v1\.99\.0 /m) as unknown,
    });
  });

  test('says why a newer release is not used', async () => {
    const { exit, text } = await run({
      'index/modules.json': index([]),
      '/github.com/flannel-io/flannel/@v/list': 'v0.28.9',
    });
    expect(exit).toBe('ok');
    expect(text).toMatch(/^github\.com\/flannel-io\/flannel v0\.28\.9 is not used: Go modules /m);
  });
});

describe('bundle sbom', () => {
  test('prints one CycloneDX document with every component, also as text', async () => {
    await using place = await startPlace();
    await runBundleSbom(place.command, VERSION);
    const bom: unknown = JSON.parse(place.text());
    expect(bom).toMatchObject({ bomFormat: 'CycloneDX', specVersion: '1.6' });
    expect(bom).toEqual(place.host.answered);
    expect((bom as { components: unknown[] }).components).toHaveLength(28);
  });
});

describe('bundle ls', () => {
  test('lists every bundle and its missing components', async () => {
    await using place = await startPlace();
    await place.context.ports.files.remove(await place.pathOf('helm'));
    await runBundleList(place.command, { kubernetesVersion: undefined });
    expect(place.text()).toMatch(/^kubernetes-v1\.\d+\.\d+-linux-amd64 +Incomplete +28 .* helm$/m);
  });

  test('shows the components of one bundle with version, scope and size', async () => {
    await using place = await startPlace();
    await runBundleList(place.command, VERSION);
    expect(place.text()).toMatch(/^etcd +v3\.\d+\.\d+ +binary +control-plane +\d+ B +[0-9a-f]{12}$/m);
    expect(place.text()).toMatch(/^total /m);
  });

  test('shows the command that builds a bundle if there is none', async () => {
    await using place = await startPlace();
    await place.context.ports.files.remove(place.manifestPath);
    await runBundleList(place.command, { kubernetesVersion: undefined });
    expect(place.text()).toContain('cluster bundle build');
  });
});

/** A machine that stores a complete bundle, and a context for running commands on it. */
async function startPlace() {
  const directory = await temporaryDirectory();
  const fake = new FakeBuildTools({ directory: directory.path, elf: elfFile() });
  await fake.installToolchain();
  const host = new RecordingHost();
  const context = fakeBuildContext(fake);
  const { cache, env, signal } = context;
  const ports = { ...context.ports, files: new DiskFiles() };
  const { manifest, manifestPath } = await buildBundle(context, VERSION);
  const paths = { cache, data: directory.path, config: directory.path, workspace: directory.path };
  const command: CommandContext = { host, ports, paths, passphrases: noPassphrases, env, signal };
  return {
    host,
    context,
    command,
    manifestPath,
    pathOf: (name: string) =>
      openBundleCache(context).store.path(
        manifest.components.find((component) => component.name === name)?.sha256 ?? '',
      ),
    text: () => host.records.flatMap((each) => (each.kind === 'result' ? [each.text] : [])).join('\n'),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}
