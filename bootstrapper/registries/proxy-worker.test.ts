import { dirname } from 'node:path';
import { expect, test } from '@jest/globals';
import { EventValue } from '../../internal/event/index.ts';
import { UNIT_DIRECTORY } from '../../internal/platform/index.ts';
import { FakeClock, FakeUnits, MemoryFiles, settle, superviseForTest } from '../../internal/testing/index.ts';
import { CONTAINERD_UNIT } from '../kubernetes/index.ts';
import type { Membership } from '../membership/index.ts';
import { membership } from '../roleserve/fake-node.ts';
import { PROXY_DROPIN, proxyWorker } from './proxy-worker.ts';

const PROXY = 'http://proxy.example.org:3128';
const UNIT = '[Service]\nExecStart=/opt/cluster/bin/containerd\n';
const RESTART = `restart ${CONTAINERD_UNIT}`;

/** Units whose files are on the disk, as systemd reads them. */
class UnitsOnDisk extends FakeUnits {
  readonly files = new MemoryFiles();
  failsAfterWrite = false;
  failsToRestart = false;

  override async restart(unit: string): Promise<void> {
    if (this.failsToRestart) throw new Error('not restarted');
    await super.restart(unit);
  }

  override async install(unit: string, content: string): Promise<boolean> {
    const path = `${UNIT_DIRECTORY}/${unit}`;
    await this.files.makeDirectory(dirname(path));
    await this.files.writeAtomic(path, content);
    const isNew = await super.install(unit, content);
    if (this.failsAfterWrite) throw new Error('killed');
    return isNew;
  }
}

async function withContainerd(): Promise<UnitsOnDisk> {
  const units = new UnitsOnDisk();
  await units.install(CONTAINERD_UNIT, UNIT);
  await units.start(CONTAINERD_UNIT);
  return units;
}

function startNode(units: UnitsOnDisk) {
  const values = {
    clusterMembership: new EventValue<Membership | undefined>(),
    signedConfiguration: new EventValue<string | undefined>(),
  };
  values.clusterMembership.set(membership);
  values.signedConfiguration.set(undefined);
  const clock = new FakeClock();
  const tree = superviseForTest(proxyWorker({ reads: values, files: units.files, units }), { clock });
  const configure = async (proxy?: object): Promise<void> => {
    const networking = { podSubnet: '10.244.0.0/16', serviceSubnet: '10.96.0.0/16' };
    values.signedConfiguration.set(JSON.stringify({ networking, ...(proxy === undefined ? {} : { proxy }) }));
    await settle();
  };
  return { tree, configure, clock };
}

test('the proxy worker passes the proxy of each configuration to containerd, and removes it when the configuration has none', async () => {
  const units = await withContainerd();
  const { tree, configure } = startNode(units);
  await using _ = tree;
  await configure({ https: PROXY, noProxy: ['.example.org'] });
  const dropin = units.installed.get(PROXY_DROPIN);
  expect(dropin).toContain(`Environment="HTTPS_PROXY=${PROXY}"\n`);
  expect(dropin).toMatch(
    /^Environment="NO_PROXY=localhost,.*10\.244\.0\.0\/16,10\.96\.0\.0\/16,\.example\.org"$/m,
  );
  expect(units.moves.filter((move) => move === RESTART)).toHaveLength(1);
  await configure();
  expect(units.installed.get(PROXY_DROPIN)).toBe('[Service]\n');
  expect(units.moves.filter((move) => move === RESTART)).toHaveLength(2);
});

test('a configuration without a proxy, or with the same one, restarts nothing', async () => {
  const units = await withContainerd();
  const { tree, configure } = startNode(units);
  await using _ = tree;
  await configure();
  expect(units.installed.has(PROXY_DROPIN)).toBe(false);
  await configure({ http: PROXY });
  await configure({ http: PROXY });
  expect(units.moves.filter((move) => move === RESTART)).toHaveLength(1);
});

test('after a crash between the write and the restart, the next start of the agent restarts containerd', async () => {
  const units = await withContainerd();
  units.failsAfterWrite = true;
  const { tree, configure } = startNode(units);
  await using _ = tree;
  await configure({ http: PROXY });
  units.failsAfterWrite = false;
  expect(units.moves).not.toContain(RESTART);
  // The agent's next start installs the unit and must then restart containerd.
  expect(await units.install(CONTAINERD_UNIT, UNIT)).toBe(true);
});

test('a restart of containerd that failed is repeated', async () => {
  const units = await withContainerd();
  units.failsToRestart = true;
  const { tree, configure, clock } = startNode(units);
  await using _ = tree;
  await configure({ http: PROXY });
  units.failsToRestart = false;
  await clock.advance(120_000);
  expect(units.moves.filter((move) => move === RESTART)).toHaveLength(1);
});

test('a proxy in an unknown format changes nothing', async () => {
  const units = new UnitsOnDisk();
  const { tree, configure } = startNode(units);
  await using _ = tree;
  await configure({ socks: 'x' });
  expect(units.installed.has(PROXY_DROPIN)).toBe(false);
  expect(tree.at('root.follow').lastError).toMatch(/reading the proxy of the cluster/);
});
