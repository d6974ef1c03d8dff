import { createHash } from 'node:crypto';
import { PORTS } from '../../internal/endpoint/index.ts';
import { readText, type FilePort } from '../../internal/file/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import { verifyCuratorCertificate } from '../../internal/pki/index.ts';
import { createClient, RpcChannel, tlsClientUpgrade } from '../../internal/rpc/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { Curator } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { ensureSystemUser, ensureUnit } from './ensure-unit.ts';
import { JOINSERVICE_USER } from './service-unit.ts';
import { UnitError } from './errors.ts';
import {
  buildJoinserviceConfig,
  buildJoinserviceUnit,
  JOINSERVICE_CONFIG,
  JOINSERVICE_UNIT,
  type JoinserviceCredentials,
  type JoinserviceSettings,
} from './joinservice-unit.ts';
import { waitForCurator, type CuratorWait } from './wait-for-curator.ts';

const PROBE_MS = 10_000;

/** Settings with which the join service and the curator run on this node. */
export interface CuratorUnitConfig extends JoinserviceSettings {
  readonly stateDir: string;
  readonly credentials: JoinserviceCredentials;
  /**
   * Certificate and key of this node, with which the agent calls the curator. The service does not get these
   * files.
   */
  readonly node: { readonly certFile: string; readonly keyFile: string };
}

/**
 * Runs the join service and its curator on this node. Resolves once the curator has answered a call that the
 * agent made with this node's certificate. May be repeated; it restarts the unit only if its configuration or
 * one of its certificates has changed.
 * @throws UnitError `units-curator-not-ready` after 180 s, or earlier if the service does not stay up
 */
export async function ensureCurator(
  ports: Omit<SystemPorts, 'log'>,
  config: CuratorUnitConfig,
  { say, signal }: Pick<CuratorWait, 'say' | 'signal'>,
): Promise<void> {
  const { files, commands, units } = ports;
  await files.writeAtomic(JOINSERVICE_CONFIG, buildJoinserviceConfig(config));
  await ensureSystemUser(commands, { user: JOINSERVICE_USER, description: 'join service' }, signal);
  const hash = createHash('sha256');
  for (const path of [JOINSERVICE_CONFIG, ...Object.values<string>({ ...config.credentials })])
    hash.update(await requireText(files, path)).update('\0');
  const content = buildJoinserviceUnit({ ...config, credentialsSha256: hash.digest('hex') });
  await ensureUnit(units, { unit: JOINSERVICE_UNIT, content }, signal);
  const { channel, endpoint } = await openChannel(ports, config);
  using _ = channel;
  const probe = () => createClient(Curator, channel).checkHealth({}, { signal, timeoutMs: PROBE_MS });
  await waitForCurator(ports, { endpoint, probe, say, signal });
}

async function openChannel(
  { files, clock }: Pick<SystemPorts, 'files' | 'clock'>,
  { clusterId, credentials, node }: CuratorUnitConfig,
): Promise<{ readonly channel: RpcChannel; readonly endpoint: string }> {
  const caPem = await requireText(files, credentials['cluster-ca.crt']);
  const trust = { caPem, clusterId, nowMs: () => clock.nowMs() };
  const identity = {
    certPem: await requireText(files, node.certFile),
    keyPem: new Secret(await requireText(files, node.keyFile)),
  };
  const upgrade = tlsClientUpgrade({
    clock,
    identity,
    accept: (certificate) => verifyCuratorCertificate(certificate, trust),
  });
  const endpoint = `127.0.0.1:${PORTS.curator}`;
  return { channel: new RpcChannel({ endpoint, upgrade }), endpoint };
}

async function requireText(files: FilePort, path: string): Promise<string> {
  const text = await readText(files, path);
  if (text === undefined) throw new UnitError('units-curator-not-ready', `${path} not found`);
  return text;
}
