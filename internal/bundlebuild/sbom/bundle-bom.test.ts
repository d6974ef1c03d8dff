import { Ajv } from 'ajv';
import { expect, test } from '@jest/globals';
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { goProgram } from '../../testing/index.ts';
import type { BundleManifest } from '../../bundle/index.ts';
import { tarFileOf } from '../archive/tar-writer.ts';
import { writeImageArchive } from '../images/image-archive.ts';
import { bundleBom } from './bundle-bom.ts';
import type { Bom } from './cyclone-dx.ts';

const SCHEMAS = join(
  dirname(createRequire(import.meta.url).resolve('@cyclonedx/cyclonedx-library')),
  '../res/schema',
);
const KUBELET = goProgram('go1.26.10', ['mod\tk8s.io/kubernetes\tv1.37.2', 'dep\tk8s.io/api\tv0.37.2']);
const PROXY = goProgram('go1.26.10', ['mod\tk8s.io/kubernetes\tv1.37.2']);
const RECORD = 'Package: iptables\nVersion: 1:1.8.9-2+b1\nArchitecture: amd64\n';

test('bundleBom() lists programs with their Go modules, images with programs and Debian packages, and charts', async () => {
  const bom = await readBom();
  const [chart, proxy, kubelet] = bom.components;
  expect(bom.metadata.component).toMatchObject({ name: MANIFEST.name, version: 'v1.37.2' });
  expect(chart).toMatchObject({ name: 'flannel', type: 'data' });
  expect(chart).not.toHaveProperty('components');
  expect(kubelet).toMatchObject({
    type: 'application',
    hashes: [{ alg: 'SHA-256', content: 'c'.repeat(64) }],
    components: [
      { purl: 'pkg:golang/k8s.io/kubernetes@v1.37.2' },
      { purl: 'pkg:golang/k8s.io/api@v0.37.2' },
      { purl: 'pkg:golang/stdlib@v1.26.10' },
    ],
  });
  expect(proxy).toMatchObject({
    type: 'container',
    components: [
      { purl: 'pkg:deb/debian/iptables@1%3A1.8.9-2%2Bb1' },
      { name: 'usr/bin/kube-proxy', version: 'v1.37.2', components: [{ name: 'k8s.io/kubernetes' }, {}] },
    ],
  });
});

test('bundleBom() returns a bill that the schema of CycloneDX 1.6 accepts', async () => {
  // Ajv checks `format` (URLs, e-mail addresses) only with further packages. The tested bill has no such field except
  // the address of its schema.
  const ajv = new Ajv({ strict: false, validateFormats: false });
  for (const name of ['spdx', 'jsf-0.82', 'cryptography-defs'])
    ajv.addSchema(
      readSchema(`${name}.SNAPSHOT.schema.json`),
      `http://cyclonedx.org/schema/${name}.SNAPSHOT.schema.json`,
    );
  const validate = ajv.compile(readSchema('bom-1.6.SNAPSHOT.schema.json'));
  const bom: unknown = JSON.parse(JSON.stringify(await readBom()));
  validate(bom);
  expect(validate.errors ?? []).toEqual([]);
  expect(validate({ ...(bom as object), serialNumber: 'none' })).toBe(false);
});

test('bundleBom() gives the same bytes for the same bundle, and another serial number for another bundle', async () => {
  const bom = await readBom();
  expect(await readBom()).toEqual(bom);
  const { serialNumber } = await readBom({ ...MANIFEST, components: MANIFEST.components.slice(1) });
  expect(serialNumber).not.toBe(bom.serialNumber);
});

const MANIFEST: BundleManifest = {
  version: 1,
  name: 'kubernetes-v1.37.2-linux-amd64',
  kubernetesVersion: 'v1.37.2',
  architecture: 'amd64',
  components: [
    component('flannel', 'chart', 'a'),
    { ...component('kube-proxy', 'image', 'b'), references: ['registry.k8s.io/kube-proxy:v1.37.2'] },
    component('kubelet', 'binary', 'c'),
  ],
};

function component(name: string, kind: 'binary' | 'image' | 'chart', digit: string) {
  const sha256 = digit.repeat(64);
  return { name, kind, version: 'v1.37.2', sha256, sizeBytes: 1, source: 'test', scope: 'node' } as const;
}

function readBom(manifest = MANIFEST): Promise<Bom> {
  return bundleBom(manifest, ({ kind }) => {
    if (kind !== 'image') return chunks(kind === 'binary' ? KUBELET : Buffer.from('chart'));
    const layers = [
      [tarFileOf('var/lib/dpkg/status.d/iptables', RECORD)],
      [tarFileOf('usr/bin/kube-proxy', PROXY, 0o755)],
    ];
    return writeImageArchive({ reference: 'a/b:1', architecture: 'amd64', layers });
  });
}

async function* chunks(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

function readSchema(name: string): object {
  return JSON.parse(readFileSync(join(SCHEMAS, name), 'utf8')) as object;
}
