import { createHash } from 'node:crypto';
import type { Clock } from '../../internal/clock/index.ts';
import { CodedError, isAbort } from '../../internal/errors/index.ts';
import type { CommandRunner } from '../../internal/exec/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { verifyCuratorCertificate } from '../../internal/pki/index.ts';
import { createClient, RpcChannel, tlsClientUpgrade } from '../../internal/rpc/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { Curator } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { UnitError } from './errors.ts';
import {
  buildJoinserviceConfig,
  buildJoinserviceUnit,
  JOINSERVICE_UNIT,
  JOINSERVICE_USER,
  type JoinserviceFiles,
  type JoinserviceSettings,
} from './joinservice-unit.ts';

const MAX_BYTES = 64 * 1024;
const POLL_MS = 200;
const READY_MS = 30_000;
const PROBE_MS = 2_000;

export interface CuratorUnitConfig extends JoinserviceSettings {
  /** e.g. ["/usr/lib/cluster/node", "/usr/lib/cluster/joinservice.mjs"] */
  readonly command: readonly [string, ...string[]];
  /** "/etc/cluster/joinservice.json" */
  readonly configFile: string;
  readonly stateDir: string;
  readonly files: JoinserviceFiles;
  /** This node's own certificate and key: what the agent asks the curator with. The service does not get them. */
  readonly node: { readonly certFile: string; readonly keyFile: string };
}

export interface CuratorUnitPorts {
  readonly files: FilePort;
  readonly commands: CommandRunner;
  readonly units: CuratorUnits;
  readonly clock: Clock;
  /** Told while something is waited for: what, and the last error. */
  readonly onWait?: (what: string, lastError: unknown) => void;
}

/**
 * The join service with its curator on this node. `start` may be repeated; it restarts the unit only when its
 * configuration or one of its certificates has changed.
 */
export class CuratorUnit {
  readonly #ports: CuratorUnitPorts;

  constructor(ports: CuratorUnitPorts) {
    this.#ports = ports;
  }

  /** Resolves with "127.0.0.1:PORT" once the curator has answered this node's own certificate. */
  async start(config: CuratorUnitConfig, signal: AbortSignal): Promise<string> {
    const { files, commands, units } = this.#ports;
    const text = buildJoinserviceConfig(config);
    await files.writeAtomic(config.configFile, text);
    await commands.run({
      argv: ['systemd-sysusers', '--inline', `u ${JOINSERVICE_USER} - "join service (cluster)" /nonexistent`],
      timeoutMs: 20_000,
      signal,
    });
    const credentialsSha256 = await this.#hashOf([
      config.configFile,
      ...Object.values<string>({ ...config.files }),
    ]);
    const changed = await units.install(
      JOINSERVICE_UNIT,
      buildJoinserviceUnit({ ...config, credentialsSha256 }),
      signal,
    );
    const { active } = await units.status(JOINSERVICE_UNIT, signal);
    if (active === 'active' && changed) await units.restart(JOINSERVICE_UNIT, signal);
    else if (active !== 'active') await units.start(JOINSERVICE_UNIT, signal);
    const endpoint = `127.0.0.1:${config.listen.port}`;
    await this.#waitUntilServing(endpoint, config, signal);
    return endpoint;
  }

  async stop(signal: AbortSignal): Promise<void> {
    await this.#ports.units.stop(JOINSERVICE_UNIT, signal);
  }

  async #waitUntilServing(endpoint: string, config: CuratorUnitConfig, signal: AbortSignal): Promise<void> {
    const { clock, onWait } = this.#ports;
    const trust = {
      caPem: await this.#read(config.files.clusterCaFile),
      clusterId: config.clusterId,
      nowMs: () => clock.nowMs(),
    };
    const identity = {
      certPem: await this.#read(config.node.certFile),
      keyPem: new Secret(await this.#read(config.node.keyFile)),
    };
    const upgrade = tlsClientUpgrade({
      clock,
      identity,
      accept: (certificate) => verifyCuratorCertificate(certificate, trust),
    });
    using channel = new RpcChannel({ endpoint, upgrade });
    const endMs = clock.monotonicMs() + READY_MS;
    for (;;) {
      try {
        await createClient(Curator, channel).checkHealth({}, { signal, timeoutMs: PROBE_MS });
        return;
      } catch (error) {
        if (isAbort(error, signal) || !(error instanceof CodedError && error.retryable)) throw error;
        onWait?.('the curator to serve', error);
        if (clock.monotonicMs() > endMs)
          throw new UnitError('units-curator-not-ready', `waiting for the curator at ${endpoint}`, {
            cause: error,
          });
        await clock.sleep(POLL_MS, signal);
      }
    }
  }

  async #hashOf(paths: readonly string[]): Promise<string> {
    const hash = createHash('sha256');
    for (const path of paths) hash.update(await this.#read(path)).update('\0');
    return hash.digest('hex');
  }

  async #read(path: string): Promise<string> {
    const bytes = await this.#ports.files.read(path, MAX_BYTES);
    if (bytes === undefined)
      throw new UnitError('units-curator-not-ready', `reading ${path}: it is not there`);
    return Buffer.from(bytes).toString('utf8');
  }
}

/** What the curator's unit needs of systemd; `internal/platform` has it. */
export interface CuratorUnits {
  install(unit: string, content: string, signal: AbortSignal): Promise<boolean>;
  start(unit: string, signal: AbortSignal): Promise<void>;
  restart(unit: string, signal: AbortSignal): Promise<void>;
  stop(unit: string, signal: AbortSignal): Promise<void>;
  status(unit: string, signal: AbortSignal): Promise<{ readonly active: string }>;
}
