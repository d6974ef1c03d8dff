import { describe, expect, test } from '@jest/globals';
import {
  DEFAULT_KUBERNETES_VERSION,
  HELD_RELEASES,
  KUBERNETES_VERSIONS,
  versionsFor,
} from '../bundle/index.ts';
import type { HttpPort } from './download/http-port.ts';
import { BundleBuildError } from './errors.ts';
import { findOutdated } from './outdated.ts';

const PROXY = 'https://proxy.invalid';
const DATABASE = 'https://vulnerabilities.invalid';
const RUNC = 'github.com/opencontainers/runc';
const { runc } = versionsFor(DEFAULT_KUBERNETES_VERSION);
const [, minor = ''] = /^(v\d+\.\d+)\./.exec(runc) ?? [];

/** Modules whose path ends with a major version; the next major of a module does not exist. */
const WITH_MAJOR = /\/helm\/v4\/@v|\/etcd\/\w+\/v3\/@v|\/containerd\/v2\/@v/;
const isNextMajor = (url: string): boolean => /\/v\d+\/@v\/list$/.test(url) && !WITH_MAJOR.test(url);

/** A server with these texts by URL; the list of every other module is empty. */
function served(texts: Readonly<Record<string, string>>): HttpPort {
  return {
    get: async (url) => {
      const text = texts[url] ?? (url.endsWith('/@v/list') && !isNextMajor(url) ? '' : undefined);
      if (text === undefined)
        throw new BundleBuildError('bundlebuild-download', `downloading ${url}: HTTP 404`, {
          details: { status: 404 },
        });
      const body = (async function* () {
        yield Buffer.from(text);
      })();
      return { offset: 0, body };
    },
  };
}

const find = (texts: Readonly<Record<string, string>>) =>
  findOutdated({
    ports: { http: served(texts) },
    env: { GOPROXY: `${PROXY},direct`, GOVULNDB: `${DATABASE}/` },
    signal: new AbortController().signal,
  });
const indexOf = (path: string, vulns: readonly object[]) => ({
  [`${DATABASE}/index/modules.json`]: JSON.stringify([{ path, vulns }]),
});

describe('findOutdated()', () => {
  test('finds the newest patch and the newest release of each module, and ignores prereleases', async () => {
    const list = [`${minor}.98`, `${minor}.99`, `${minor}.100-rc.1`, 'v99.0.0', 'v99.1.0-alpha.1'].join('\n');
    const { modules } = await find({ [`${PROXY}/${RUNC}/@v/list`]: list });
    const found = modules.filter(({ module }) => module === RUNC);
    expect(found).toEqual([
      {
        ...{ module: RUNC, pinned: runc, kubernetes: KUBERNETES_VERSIONS },
        ...{ newestPatch: `${minor}.99`, newest: 'v99.0.0', update: 'v99.0.0' },
        ...{ heldBack: undefined, vulnerabilities: undefined },
      },
    ]);
  });

  test('lists a module once for each pinned version, and names the pinned version as the newest if no other version is known', async () => {
    const { modules } = await find({});
    const kubernetes = modules.filter(({ module }) => module === 'k8s.io/kubernetes');
    expect(kubernetes.map(({ pinned }) => pinned)).toEqual(KUBERNETES_VERSIONS);
    expect(kubernetes.map(({ newest }) => newest)).toEqual(KUBERNETES_VERSIONS);
  });

  test('counts a new minor of Kubernetes as an update, and a minor of etcd that no Kubernetes names not', async () => {
    const { modules, verdict } = await find({
      ...indexOf('x', []),
      [`${PROXY}/k8s.io/kubernetes/@v/list`]: 'v1.99.0',
      [`${PROXY}/go.etcd.io/etcd/server/v3/@v/list`]: 'v3.99.0',
    });
    const updates = modules.flatMap(({ module, update }) =>
      update === undefined ? [] : [`${module} ${update}`],
    );
    expect(new Set(updates)).toEqual(new Set(['k8s.io/kubernetes v1.99.0']));
    expect(verdict).toBe('outdated');
  });

  test('finds a new major version, which is another module', async () => {
    const { modules } = await find({ [`${PROXY}/github.com/containerd/containerd/v3/@v/list`]: 'v3.0.1' });
    expect(modules.find(({ module }) => module === 'github.com/containerd/containerd/v2')).toMatchObject({
      ...{ newest: 'v3.0.1', update: 'v3.0.1' },
    });
  });

  test('shows a release that bundles do not use, with the reason, and finds the release after it', async () => {
    const flannel = 'github.com/flannel-io/flannel';
    const { from, to, reason } = HELD_RELEASES[flannel] ?? { from: '', to: '', reason: '' };
    const findIn = async (releases: readonly string[]) => {
      const { modules } = await find({ [`${PROXY}/${flannel}/@v/list`]: releases.join('\n') });
      return modules.find(({ module }) => module === flannel);
    };
    expect(await findIn([from, to])).toMatchObject({ newest: to, update: undefined, heldBack: reason });
    expect(await findIn([to, 'v99.0.0'])).toMatchObject({ newest: 'v99.0.0', update: 'v99.0.0' });
  });

  test('fails when the list of the next major cannot be read', async () => {
    const http: HttpPort = {
      get: (url) =>
        /\/helm\/v5\//.test(url)
          ? Promise.reject(
              new BundleBuildError('bundlebuild-download', 'HTTP 503', { details: { status: 503 } }),
            )
          : served({}).get(url, { signal: new AbortController().signal }),
    };
    const { signal } = new AbortController();
    await expect(findOutdated({ ports: { http }, env: {}, signal })).rejects.toThrow('HTTP 503');
  });

  test('knows no verdict without vulnerabilities', async () => {
    expect((await find({})).verdict).toBe('unknown');
    expect((await find(indexOf('x', []))).verdict).toBe('current');
    expect((await find(indexOf(RUNC, [{ id: 'GO-1' }]))).verdict).toBe('outdated');
  });

  test('finds the newest Go toolchain', async () => {
    const list = 'v0.0.1-go1.99.1.linux-amd64\nv0.0.1-go1.99.2.linux-arm64\nv0.0.1-go1.99rc1.linux-amd64';
    const { modules } = await find({ [`${PROXY}/golang.org/toolchain/@v/list`]: list });
    expect(modules.find(({ module }) => module === 'golang.org/toolchain')?.newest).toBe('v1.99.1');
  });

  test('lists vulnerabilities that no version up to the pinned one fixes', async () => {
    const { modules, vulnerabilitiesUnknown } = await find(
      indexOf(RUNC, [
        { id: 'GO-1', fixed: '0.0.1' },
        { id: 'GO-2', fixed: runc.slice(1) },
        { id: 'GO-3', fixed: `${minor.slice(1)}.99` },
        { id: 'GO-4' },
      ]),
    );
    expect(vulnerabilitiesUnknown).toBeUndefined();
    const found = new Map(modules.map(({ module, vulnerabilities }) => [module, vulnerabilities]));
    expect(found.get(RUNC)).toEqual(['GO-3', 'GO-4']);
    expect(found.get('github.com/coredns/coredns')).toEqual([]);
  });

  test.each([
    { name: 'cannot be read', texts: {} },
    { name: 'has another format', texts: { [`${DATABASE}/index/modules.json`]: '{}' } },
  ])('says that vulnerabilities are unknown when the database $name', async ({ texts }) => {
    const { modules, vulnerabilitiesUnknown } = await find(texts);
    expect(vulnerabilitiesUnknown).toEqual(expect.any(String));
    expect(modules.every(({ vulnerabilities }) => vulnerabilities === undefined)).toBe(true);
  });
});
