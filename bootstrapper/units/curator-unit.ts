import { createHash } from 'node:crypto';
import type { Clock } from '../../internal/clock/index.ts';
import { CodedError, isAbort } from '../../internal/errors/index.ts';
import type { CommandRunner } from '../../internal/exec/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { verifyCuratorCertificate } from '../../internal/pki/index.ts';
import { createClient, RpcChannel, tlsClientUpgrade } from '../../internal/rpc/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { Curator } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { ensureSystemUser, ensureUnit, type ServiceUnits } from './ensure-unit.ts';
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

/** Settings with which the join service and the curator run on this node. */
export interface CuratorUnitConfig extends JoinserviceSettings {
  /** e.g. ["/usr/lib/cluster/node", "/usr/lib/cluster/joinservice.mjs"] */
  readonly command: readonly [string, ...string[]];
  /** "/etc/cluster/joinservice.json" */
  readonly configFile: string;
  readonly stateDir: string;
  readonly files: JoinserviceFiles;
  /**
   * Certificate and key of this node, with which the agent calls the curator. The service does not get these
   * files.
   */
  readonly node: { readonly certFile: string; readonly keyFile: string };
}

/** Ports (injected dependencies) of the join service's unit. */
export interface CuratorUnitPorts {
  readonly files: FilePort;
  readonly commands: CommandRunner;
  readonly units: ServiceUnits;
  readonly clock: Clock;
  /** Called while the agent waits, with the reason and the last error. */
  readonly onWait?: (what: string, lastError: unknown) => void;
}

/**
 * Runs the join service and its curator on this node. `start` may be repeated; it restarts the unit only if
 * its configuration or one of its certificates has changed.
 */
export class CuratorUnit {
  readonly #ports: CuratorUnitPorts;

  constructor(ports: CuratorUnitPorts) {
    this.#ports = ports;
  }

  /**
   * Resolves with "127.0.0.1:PORT" once the curator has answered a call that the agent made with this node's
   * certificate.
   * @throws UnitError `units-curator-not-ready` after 30 s
   */
  async start(config: CuratorUnitConfig, signal: AbortSignal): Promise<string> {
    const { files, commands, units } = this.#ports;
    await files.writeAtomic(config.configFile, buildJoinserviceConfig(config));
    await ensureSystemUser(commands, { user: JOINSERVICE_USER, description: 'join service' }, signal);
    const credentialsSha256 = await this.#hashOf([
      config.configFile,
      ...Object.values<string>({ ...config.files }),
    ]);
    const content = buildJoinserviceUnit({ ...config, credentialsSha256 });
    await ensureUnit(units, { unit: JOINSERVICE_UNIT, content }, signal);
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
    if (bytes === undefined) throw new UnitError('units-curator-not-ready', `${path} not found`);
    return Buffer.from(bytes).toString('utf8');
  }
}
