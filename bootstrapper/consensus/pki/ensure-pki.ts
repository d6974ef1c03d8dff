import { CA_COMMON_NAMES } from '../../../internal/keyset/index.ts';
import { inspectDisk, mayCreateCas } from './disk-state.ts';
import { ensureCa, ensureLeaf, type PkiPorts } from './ensure-certificates.ts';
import type { EtcdInstance } from '../etcd-instances.ts';
import type { ConsensusConfig } from '../consensus-config.ts';
import type { ConsensusLayout } from '../consensus-layout.ts';
import { readTrustBundles } from './shared-keys.ts';

const YEAR_DAYS = 365;

/** Creates or renews every key and certificate that etcd and its clients on this node need. */
export async function ensurePki(ports: PkiPorts, config: ConsensusConfig): Promise<void> {
  const { files } = ports;
  const { validDays = YEAR_DAYS, etcd, layout, nodeId: commonName } = config;
  const mayCreate = mayCreateCas(await inspectDisk(files, layout), {
    layout,
    createsCluster: config.createsCluster,
    alone: config.peers.length === 0,
  });
  for (const directory of ['clients', 'peers']) await files.makeDirectory(`${layout.root}/${directory}`);
  for (const directory of ['data', 'pki']) await files.makeDirectory(`${layout.etcdHome}/${directory}`);
  const clients = await ensureCa(ports, layout.clientsCa, {
    commonName: CA_COMMON_NAMES[etcd.cas.clients],
    mayCreate,
  });
  const peers = await ensureCa(ports, layout.peersCa, {
    commonName: CA_COMMON_NAMES[etcd.cas.peers],
    mayCreate,
  });
  const names = [
    { type: 'ip', value: config.address },
    { type: 'ip', value: '127.0.0.1' },
    { type: 'dns', value: 'localhost' },
  ] as const;
  const server = { commonName, usages: ['server'], names } as const;
  await ensureLeaf(ports, layout.server, { signer: clients, template: server, validDays });
  const peer = { commonName, usages: ['server', 'client'], names: names.slice(0, 1) } as const;
  await ensureLeaf(ports, layout.peer, { signer: peers, template: peer, validDays });
  const trusted = await readTrustBundles(files, layout);
  await files.writeAtomic(layout.trustedClientsCa, trusted.clients, { mode: 0o644 });
  await files.writeAtomic(layout.trustedPeersCa, trusted.peers, { mode: 0o644 });
  for (const name of etcd.clients) {
    const user = layout.user(name);
    await files.makeDirectory(user.directory);
    await files.writeAtomic(user.caFile, trusted.clients, { mode: 0o644 });
    const template = { commonName: name, usages: ['client'], names: [] } as const;
    await ensureLeaf(ports, user, { signer: clients, template, validDays });
  }
}

/** Paths of the certificates that `ensurePki` renews. */
export function certificateFiles(
  layout: ConsensusLayout,
  { clients }: Pick<EtcdInstance, 'clients'>,
): readonly string[] {
  const users = clients.map((name) => layout.user(name).certFile);
  return [layout.server.certFile, layout.peer.certFile, ...users];
}
