import { expect, test } from '@jest/globals';
import {
  familiesOf,
  renderClusterConfig,
  LOCAL_NETWORKS,
  type LocalFamilies,
} from '../../internal/config/index.ts';
import { MemoryFiles } from '../../internal/testing/index.ts';
import { readFamilies } from './ip-families.ts';

async function contextOf(families: LocalFamilies) {
  const files = new MemoryFiles();
  await files.makeDirectory('/w');
  const text = renderClusterConfig({ name: 'a', networks: LOCAL_NETWORKS[families] });
  await files.writeAtomic('/w/cluster.yaml', text);
  return { ports: { files }, paths: { workspace: '/w' } } as unknown as Parameters<typeof readFamilies>[0];
}

test.each([
  { families: 'ipv4', ipFamily: undefined },
  { families: 'ipv4', ipFamily: 'ipv4' },
  { families: 'dual', ipFamily: undefined },
  { families: 'dual', ipFamily: 'dual' },
  { families: 'ipv6', ipFamily: undefined },
  { families: 'ipv6', ipFamily: 'ipv6' },
] as const)(
  'readFamilies() follows cluster.yaml: $families, --ip-family $ipFamily',
  async ({ families, ipFamily }) => {
    const flags = { name: 'a', ...(ipFamily === undefined ? {} : { ipFamily }) };
    expect(await readFamilies(await contextOf(families), flags)).toEqual(
      familiesOf(LOCAL_NETWORKS[families].podSubnet),
    );
  },
);

test.each([
  { families: 'ipv4', ipFamily: 'dual' },
  { families: 'dual', ipFamily: 'ipv4' },
  { families: 'dual', ipFamily: 'ipv6' },
  { families: 'ipv6', ipFamily: 'dual' },
  { families: 'ipv6', ipFamily: 'ipv4' },
] as const)(
  'readFamilies() refuses --ip-family $ipFamily for a cluster with $families',
  async ({ families, ipFamily }) => {
    await expect(readFamilies(await contextOf(families), { name: 'a', ipFamily })).rejects.toMatchObject({
      code: 'mini-ip-family-other',
    });
  },
);
