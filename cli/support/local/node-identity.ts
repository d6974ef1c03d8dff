import { z } from 'zod';
import { parseProvisioning, PROVISIONING_PATH } from '../../../internal/config/index.ts';
import { formatEndpoint, PORTS } from '../../../internal/endpoint/index.ts';
import { FileError, readJson, readText, type FilePort } from '../../../internal/file/index.ts';
import { isControlPlane, parseRoles } from '../../../internal/role/index.ts';
import { SupportError } from '../errors.ts';

/** Records of a member, each in a checksummed file (bootstrapper/nodestate/paths.ts, bootstrapper/membership). */
const MEMBERSHIP = '/var/lib/cluster/membership';
const MAX_BYTES = 4 * 1024 * 1024;
const text = z.string().max(512);

const stored = <T extends z.ZodType>(value: T) => z.looseObject({ value });
const membershipShape = stored(
  z.looseObject({
    clusterId: text,
    clusterName: text,
    nodeId: text,
    nodeName: text,
    nodeAddress: text,
    directory: z.array(z.looseObject({ nodeId: text, host: text })).max(64),
  }),
);
const directoryShape = stored(z.array(z.looseObject({ nodeId: text, host: text })).max(64));
const rolesShape = stored(z.array(text).max(16));

/** A control plane that this node knows. */
export interface Peer {
  /** The name is not on the disk of this node; a control plane is named by its address. */
  readonly node: string;
  /** "HOST:PORT" of its curator. */
  readonly host: string;
  readonly endpoint: string;
}

/** What the disk of this machine says about the machine. */
export interface NodeIdentity {
  readonly clusterId: string;
  readonly clusterName: string;
  /** Name of the node, or the host name of a machine that is no node. */
  readonly name: string;
  readonly nodeId: string;
  readonly isMember: boolean;
  readonly isControlPlane: boolean;
  /** undefined while the machine is no node. */
  readonly address: string | undefined;
  /** The other control planes. */
  readonly peers: readonly Peer[];
}

/**
 * Who this machine is, from the records of its membership. Records that are missing or damaged are left out: the bundle lists them
 * when it collects the files.
 * @throws SupportError `support-not-root`
 */
export async function readNodeIdentity(
  files: Pick<FilePort, 'read'>,
  hostname: string,
): Promise<NodeIdentity> {
  const read = async <T extends z.ZodType>(name: string, shape: T): Promise<z.output<T> | undefined> => {
    const json = await readJson(files, `${MEMBERSHIP}/${name}.json`, MAX_BYTES).catch(orRefuse);
    return shape.safeParse(json).data;
  };
  const found = (await read('membership', membershipShape))?.value;
  const directory = (await read('directory', directoryShape))?.value ?? found?.directory ?? [];
  const { nodeId = '', nodeName = hostname, clusterId = '', clusterName = '' } = found ?? {};
  return {
    ...{ clusterId, clusterName, name: nodeName, nodeId, isMember: found !== undefined },
    isControlPlane:
      rolesAre((await read('roles', rolesShape))?.value) ?? directory.some((each) => each.nodeId === nodeId),
    address: found?.nodeAddress,
    peers: directory
      .filter((each) => each.nodeId !== nodeId)
      .map(({ host }) => ({ node: host, host, endpoint: formatEndpoint(host, PORTS.curator) })),
  };
}

function rolesAre(names: readonly string[] | undefined): boolean | undefined {
  if (names === undefined) return undefined;
  try {
    return isControlPlane(parseRoles(names));
  } catch {
    return undefined; // roles of another version
  }
}

/** The recipients that the owner has named for the state disk of this machine; none without a state disk. */
export async function readKnownRecipients(files: Pick<FilePort, 'read'>): Promise<readonly string[]> {
  const provisioning = await readText(files, PROVISIONING_PATH).catch(orRefuse);
  if (provisioning === undefined) return [];
  try {
    return parseProvisioning(provisioning).stateDisk?.recoveryRecipients ?? [];
  } catch {
    return []; // the checks of the machine report a malformed provisioning file
  }
}

/** Another error than a missing permission is listed when the file itself is collected. */
function orRefuse(cause: unknown): undefined {
  if (cause instanceof FileError && cause.code === 'file-permission')
    throw new SupportError('support-not-root', 'making a support bundle on this machine', { cause });
  return undefined;
}
