import type { CommandRunner } from '../../internal/exec/index.ts';
import { findEtcdBinary, findFreePort } from '../../internal/testing/index.ts';
import type { ConsensusConfig } from './consensus-config.ts';
import { consensusLayout } from './consensus-layout.ts';
import { STATE_ETCD } from './etcd-instances.ts';

/**
 * Configuration of member `index` of a state etcd on the loopback, with its files in `stateDir`. `clientPorts`:
 * the client ports of all members.
 */
export async function testMemberConfig(
  stateDir: string,
  index: number,
  clientPorts: readonly number[],
): Promise<ConsensusConfig> {
  const client = clientPorts[index] ?? 0;
  return {
    etcd: STATE_ETCD,
    nodeId: `node-${index + 1}`,
    address: '127.0.0.1',
    clusterId: 'c0ffee',
    ports: { client, peer: await findFreePort(), metrics: await findFreePort() },
    quotaBytes: 64 * 1024 * 1024,
    createsCluster: index === 0,
    peers: clientPorts.filter((port) => port !== client).map((port) => `127.0.0.1:${port}`),
    etcdBinary: await findEtcdBinary(stateDir),
    layout: consensusLayout(stateDir, 'state'),
    readyTimeoutMs: 30_000,
  };
}

/** Only root can create system users and give files to them, so these tests run no commands. */
export const noCommands: CommandRunner = {
  run: () => Promise.resolve({ exitCode: 0, stdout: '', stderr: '' }),
};
