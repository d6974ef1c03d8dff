import type { Clock } from '../../internal/clock/index.ts';
import { EtcdClient, EtcdError } from '../../internal/etcd/index.ts';
import { isAbort } from '../../internal/errors/index.ts';
import type { CommandRunner } from '../../internal/exec/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { ensureAccessControl } from './access.ts';
import { inspectDisk, mayCreateAuthorities } from './disk-state.ts';
import { ConsensusError } from './errors.ts';
import { ensureAuthority, ensureLeaf, readText, type PkiPorts } from './etcd-pki.ts';
import {
  buildEtcdConfig,
  buildEtcdUnit,
  ETCD_UNIT,
  ETCD_USER,
  urlOf,
  type EtcdSettings,
} from './etcd-unit.ts';
import { consensusLayout, ETCD_USERS, type ConsensusLayout, type EtcdClientFiles } from './layout.ts';

const POLL_MS = 200;
const PROBE_MS = 2_000;
/** With peers that are still down this may pass; the caller asks again. */
const READY_MS = 60_000;

export interface ConsensusConfig extends EtcdSettings {
  readonly etcdBinary: string;
  /** "/var/lib/cluster" */
  readonly stateDir: string;
  /** How long etcd may take until it serves; a minute unless said. */
  readonly readyMs?: number;
}

export interface ConsensusPorts {
  readonly files: FilePort;
  readonly commands: CommandRunner;
  readonly units: ConsensusUnits;
  readonly clock: Clock;
  readonly log: Logger;
  /** Told while something is waited for: what, and the last error. */
  readonly onWait?: (what: string, lastError: unknown) => void;
}

/** A member that serves, with its access control in force. */
export interface RunningConsensus extends Disposable {
  /** The local member as etcd's root; disposed with this. */
  readonly admin: EtcdClient;
  /** "127.0.0.1:2379" */
  readonly endpoint: string;
  readonly metricsUrl: string;
  readonly apiServer: EtcdClientFiles;
  readonly curator: EtcdClientFiles;
}

/**
 * etcd on this node: its PKI, unit and access control. `start` may be repeated at any time, after any crash: it makes
 * what is missing and leaves what is right. A running etcd is not restarted unless its configuration changed.
 */
export class Consensus {
  readonly #ports: ConsensusPorts;
  readonly #pki: PkiPorts;

  constructor(ports: ConsensusPorts) {
    this.#ports = ports;
    this.#pki = { files: ports.files, nowMs: () => ports.clock.nowMs() };
  }

  async start(config: ConsensusConfig, signal: AbortSignal): Promise<RunningConsensus> {
    const layout = consensusLayout(config.stateDir);
    await this.#preparePki(config, layout);
    await this.#startUnit(config, layout, signal);
    const admin = await this.#connect(config, layout);
    try {
      await this.#waitUntilServing(admin, config, signal);
      await this.#ports.files.createExclusive(layout.formedMark, `${config.clusterId}\n`);
      await ensureAccessControl(admin, signal);
      await this.#correctPeerUrl(admin, config, signal);
    } catch (error) {
      admin[Symbol.dispose]();
      throw error;
    }
    return {
      admin,
      endpoint: endpointOf(config),
      metricsUrl: `http://127.0.0.1:${config.ports.metrics}/metrics`,
      apiServer: clientFiles(config, layout, 'apiserver'),
      curator: clientFiles(config, layout, 'curator'),
      [Symbol.dispose]: () => admin[Symbol.dispose](),
    };
  }

  async stop(signal: AbortSignal): Promise<void> {
    await this.#ports.units.stop(ETCD_UNIT, signal);
  }

  async #preparePki(config: ConsensusConfig, layout: ConsensusLayout): Promise<void> {
    const { files } = this.#ports;
    const mayCreate = mayCreateAuthorities(await inspectDisk(files, layout), layout);
    for (const folder of ['clients', 'peers']) await files.makeDirectory(`${layout.root}/${folder}`);
    for (const folder of ['data', 'pki']) await files.makeDirectory(`${layout.etcdHome}/${folder}`);
    const clients = await ensureAuthority(this.#pki, layout.clientsCa, {
      commonName: 'etcd clients',
      mayCreate,
    });
    const peers = await ensureAuthority(this.#pki, layout.peersCa, { commonName: 'etcd peers', mayCreate });
    const names = [
      { type: 'ip', value: config.address },
      { type: 'ip', value: '127.0.0.1' },
      { type: 'dns', value: 'localhost' },
    ] as const;
    const server = { commonName: config.nodeId, usages: ['server'], names } as const;
    await ensureLeaf(this.#pki, layout.server, { signer: clients, wish: server });
    const peer = {
      commonName: config.nodeId,
      usages: ['server', 'client'],
      names: names.slice(0, 1),
    } as const;
    await ensureLeaf(this.#pki, layout.peer, { signer: peers, wish: peer });
    await files.writeAtomic(layout.trustedClientsCa, clients.caPem, { mode: 0o644 });
    await files.writeAtomic(layout.trustedPeersCa, peers.caPem, { mode: 0o644 });
    for (const name of ETCD_USERS) {
      const user = layout.user(name);
      await files.makeDirectory(user.folder);
      await files.writeAtomic(user.caFile, clients.caPem, { mode: 0o644 });
      const wish = { commonName: name, usages: ['client'], names: [] } as const;
      await ensureLeaf(this.#pki, user, { signer: clients, wish });
    }
  }

  async #startUnit(config: ConsensusConfig, layout: ConsensusLayout, signal: AbortSignal): Promise<void> {
    const { files, commands, units, log } = this.#ports;
    const written = buildEtcdConfig(config, layout);
    const found = await files.read(layout.configFile, 64 * 1024);
    const changed = found === undefined || Buffer.from(found).toString('utf8') !== written;
    if (changed) await files.writeAtomic(layout.configFile, written);
    await commands.run({
      argv: ['systemd-sysusers', '--inline', `u ${ETCD_USER} - "etcd (cluster)" /nonexistent`],
      timeoutMs: 20_000,
      signal,
    });
    await commands.run({
      argv: ['chown', '--recursive', '--no-dereference', `${ETCD_USER}:${ETCD_USER}`, layout.etcdHome],
      timeoutMs: 60_000,
      signal,
    });
    const unit = buildEtcdUnit({ etcdBinary: config.etcdBinary, stateDir: config.stateDir, layout });
    const unitChanged = await units.install(ETCD_UNIT, unit, signal);
    const { active } = await units.status(ETCD_UNIT, signal);
    if (active === 'active' && (changed || unitChanged)) {
      log.info('restarting etcd with a new configuration');
      await units.restart(ETCD_UNIT, signal);
    } else if (active !== 'active') await units.start(ETCD_UNIT, signal);
  }

  async #connect(config: ConsensusConfig, layout: ConsensusLayout): Promise<EtcdClient> {
    const { files, clock } = this.#ports;
    const root = layout.user('root');
    return new EtcdClient({
      endpoints: [endpointOf(config)],
      identity: {
        certPem: await readText(files, root.certFile),
        keyPem: new Secret(await readText(files, root.keyFile)),
      },
      serverCaPem: await readText(files, root.caFile),
      clock,
    });
  }

  /** A linearizable read: the member runs, has its peers, and they have a leader. */
  async #waitUntilServing(admin: EtcdClient, config: ConsensusConfig, signal: AbortSignal): Promise<void> {
    const { clock, onWait } = this.#ports;
    const endMs = clock.monotonicMs() + (config.readyMs ?? READY_MS);
    for (;;) {
      try {
        await admin.get('ready', { signal, timeoutMs: PROBE_MS });
        return;
      } catch (error) {
        if (isAbort(error, signal) || !(error instanceof EtcdError && error.retryable)) throw error;
        onWait?.('etcd to serve', error);
        if (clock.monotonicMs() > endMs)
          throw new ConsensusError('consensus-not-ready', 'waiting for etcd to serve', { cause: error });
        await clock.sleep(POLL_MS, signal);
      }
    }
  }

  /** A machine that came back with another address tells its peers; certificates and listeners were made for it above. */
  async #correctPeerUrl(admin: EtcdClient, config: ConsensusConfig, signal: AbortSignal): Promise<void> {
    const wanted = urlOf(config.address, config.ports.peer);
    const own = (await admin.members.list({ signal })).find(({ name }) => name === config.nodeId);
    if (own === undefined || own.peerUrls.includes(wanted)) return;
    this.#ports.log.info('this node has a new address', { was: own.peerUrls, is: wanted });
    await admin.members.setPeerUrl(own.id, wanted, { signal });
  }
}

function endpointOf(config: ConsensusConfig): string {
  return `127.0.0.1:${config.ports.client}`;
}

function clientFiles(
  config: ConsensusConfig,
  layout: ConsensusLayout,
  name: 'apiserver' | 'curator',
): EtcdClientFiles {
  const { caFile, certFile, keyFile } = layout.user(name);
  return { endpoint: `https://${endpointOf(config)}`, caFile, certFile, keyFile };
}

/** What consensus needs of systemd; `internal/platform` has it. */
export interface ConsensusUnits {
  install(unit: string, content: string, signal: AbortSignal): Promise<boolean>;
  start(unit: string, signal: AbortSignal): Promise<void>;
  restart(unit: string, signal: AbortSignal): Promise<void>;
  stop(unit: string, signal: AbortSignal): Promise<void>;
  status(unit: string, signal: AbortSignal): Promise<{ readonly active: string }>;
}
