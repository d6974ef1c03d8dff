import { expect, test } from '@jest/globals';
import { renderClusterConfig, LOCAL_NETWORKS } from '../../internal/config/index.ts';
import { MemoryFiles } from '../../internal/testing/index.ts';
import { readHasIpv6 } from './ip-families.ts';

async function contextOf(families: 'ipv4' | 'dual') {
  const files = new MemoryFiles();
  await files.makeDirectory('/w');
  const text = renderClusterConfig({ name: 'a', networks: LOCAL_NETWORKS[families] });
  await files.writeAtomic('/w/cluster.yaml', text);
  return { ports: { files }, paths: { workspace: '/w' } } as unknown as Parameters<typeof readHasIpv6>[0];
}

test.each([
  { families: 'ipv4', ipFamily: undefined, want: false },
  { families: 'ipv4', ipFamily: 'ipv4', want: false },
  { families: 'dual', ipFamily: undefined, want: true },
  { families: 'dual', ipFamily: 'dual', want: true },
] as const)(
  'readHasIpv6() follows cluster.yaml: $families, --ip-family $ipFamily',
  async ({ families, ipFamily, want }) => {
    const flags = { name: 'a', ...(ipFamily === undefined ? {} : { ipFamily }) };
    expect(await readHasIpv6(await contextOf(families), flags)).toBe(want);
  },
);

test.each([
  { families: 'ipv4', ipFamily: 'dual' },
  { families: 'dual', ipFamily: 'ipv4' },
] as const)(
  'readHasIpv6() refuses --ip-family $ipFamily for a cluster with $families',
  async ({ families, ipFamily }) => {
    await expect(readHasIpv6(await contextOf(families), { name: 'a', ipFamily })).rejects.toMatchObject({
      code: 'mini-ip-family-other',
    });
  },
);
