import { certificateSha256 } from '../../internal/crypto/index.ts';
import { formatEndpoint, hostOf, parseEndpoint, PORTS } from '../../internal/endpoint/index.ts';
import type { CommandContext } from '../app/command.ts';
import { collateralForMachine } from '../collateral/index.ts';
import { readAgentPackage, type PackageOptions } from './agent-package.ts';
import { readCaller, callCurator } from '../cluster/index.ts';
import { fileOrClusterConfiguration } from '../configuration/index.ts';
import { ownerKeysToProvision } from '../operators/index.ts';
import { AppError } from '../app/errors.ts';
import { COLLATERAL_PATH, userDataOf, type UserData } from './user-data.ts';

/**
 * The smallest user-data limit of the large clouds (EC2: 16 KiB before base64). If the user data exceeds this limit,
 * the collateral is left out, because it can be added later; without the provisioning file a machine could never join.
 */
const MAX_USER_DATA_BYTES = 16 * 1024;
/** The resource manager of the kernel, on every machine with a TPM. */
const TPM_DEVICE = '/dev/tpmrm0';

/** Arguments of `cluster node cloud-init`. */
export interface CloudInitOptions extends PackageOptions {
  /** "HOST:PORT" of control planes; default: those of the cluster. */
  readonly endpoints: readonly string[];
  readonly tpm: boolean;
}

/**
 * `cluster node cloud-init`: prints what a machine needs to find and authenticate its cluster: owner keys, cluster id and CA,
 * and join endpoints. If control planes show evidence of processors, also the attestation settings and the collateral. It
 * contains no secret and is the same for every machine. @throws AppError `app-usage`, CloudInitError
 */
export async function runCloudInit(context: CommandContext, options: CloudInitOptions): Promise<void> {
  const agentPackage = readAgentPackage(context, options);
  const config = await fileOrClusterConfiguration(context);
  const joinEndpoints =
    options.endpoints.length > 0 ? options.endpoints.map(endpointOf) : await currentJoinEndpoints(context);
  const ownerKeys = await ownerKeysToProvision(context, { asksCluster: options.endpoints.length === 0 });
  // Read after the calls to the cluster, because these calls adopt a new cluster CA if an owner has replaced it.
  const { clusterId, clusterCaPem, ca } = await readCaller(context);
  const caGeneration = ca.generation === 1 ? {} : { caGeneration: ca.generation };
  const provisioning = {
    version: 1,
    platform: 'metal',
    ownerKeys,
    cluster: { id: clusterId, caSha256: certificateSha256(clusterCaPem), ...caGeneration },
    tpm: options.tpm ? { kind: 'device', path: TPM_DEVICE } : { kind: 'none' },
    joinEndpoints,
    ...(hasProcessors(config.attestation.variants) ? { attestation: config.attestation } : {}),
  };
  const json = `${JSON.stringify(provisioning, undefined, 2)}\n`;
  const collateral = hasProcessors(config.attestation.variants)
    ? await collateralForMachine(context, { asksCluster: options.endpoints.length === 0 })
    : undefined;
  const userData = fittingUserData(context, { json, collateral, agentPackage, hasStateDisk: false });
  context.host.result({ provisioning, cloudConfig: userData, ...(collateral && { collateral }) }, () =>
    options.format === 'provisioning' ? json.trimEnd() : userData.trimEnd(),
  );
}

/** Leaves the collateral out if it exceeds the limit for user data. */
function fittingUserData(context: CommandContext, data: UserData): string {
  const whole = userDataOf(data);
  if (data.collateral === undefined || Buffer.byteLength(whole) <= MAX_USER_DATA_BYTES) return whole;
  context.host.warn(
    'cloud-init-collateral-left-out',
    `The collateral does not fit into user data of ${MAX_USER_DATA_BYTES} bytes and is left out. Add it to the image as ${COLLATERAL_PATH}; --output json has it in data.collateral.`,
  );
  return userDataOf({ ...data, collateral: undefined });
}

function hasProcessors(variants: readonly string[]): boolean {
  return variants.some((variant) => variant !== 'tpm' && variant !== 'machine-key');
}

function endpointOf(text: string): string {
  const endpoint = parseEndpoint(text, PORTS.join);
  if (endpoint === undefined)
    throw new AppError('app-usage', `invalid endpoint ${JSON.stringify(text)}: use HOST or HOST:PORT`);
  return endpoint;
}

/** Join endpoints of all current control planes. */
async function currentJoinEndpoints(context: CommandContext): Promise<readonly string[]> {
  const { directory } = await callCurator(context, ({ curator }) => curator.getClusterInfo({}));
  return directory.map(({ curatorEndpoint }) => formatEndpoint(hostOf(curatorEndpoint), PORTS.join));
}
