import { describe, expect, test } from '@jest/globals';
import { DEFAULT_KUBERNETES_VERSION, KUBERNETES_VERSIONS, versionsFor } from '../bundle/index.ts';
import type { HttpPort } from './download/http-port.ts';
import { BundleBuildError } from './errors.ts';
import { findOutdated } from './outdated.ts';

const PROXY = 'https://proxy.invalid';
const DATABASE = 'https://vulnerabilities.invalid';
const RUNC = 'github.com/opencontainers/runc';
const { runc } = versionsFor(DEFAULT_KUBERNETES_VERSION);
const [, minor = ''] = /^(v\d+\.\d+)\./.exec(runc) ?? [];

/** A server with these texts by URL; the list of every other module is empty. */
function served(texts: Readonly<Record<string, string>>): HttpPort {
  return {
    get: async (url) => {
      const text = texts[url] ?? (url.endsWith('/@v/list') ? '' : undefined);
      if (text === undefined)
        throw new BundleBuildError('bundlebuild-download', `downloading ${url}: HTTP 404`);
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
        ...{ newestPatch: `${minor}.99`, newest: 'v99.0.0', vulnerabilities: undefined },
      },
    ]);
  });

  test('lists a module once for each pinned version, and names the pinned version as the newest if no other version is known', async () => {
    const { modules } = await find({});
    const kubernetes = modules.filter(({ module }) => module === 'k8s.io/kubernetes');
    expect(kubernetes.map(({ pinned }) => pinned)).toEqual(KUBERNETES_VERSIONS);
    expect(kubernetes.map(({ newest }) => newest)).toEqual(KUBERNETES_VERSIONS);
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
