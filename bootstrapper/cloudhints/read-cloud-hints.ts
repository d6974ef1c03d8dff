import { z } from 'zod';
import { withTimeout } from '../../internal/cleanup/index.ts';
import type { CloudSetting } from '../../internal/config/index.ts';
import { describeError, findCoded } from '../../internal/errors/index.ts';
import { type FilePort, readText } from '../../internal/file/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import { aws } from './aws.ts';
import { type AskMetadata, createMetadataClient } from './ask-metadata.ts';
import { azure } from './azure.ts';
import type { CloudProvider, Firmware } from './cloud-provider.ts';
import { gcp } from './gcp.ts';
import { nocloud } from './nocloud.ts';
import { openstack } from './openstack.ts';
import { type CloudHints, parseHints } from './parse-hints.ts';

/** All requests to the metadata service together may delay the start of the agent by at most this long. */
const LIMIT_MS = 5_000;
const MAX_KEPT_BYTES = 4096;

/** The name of a cloud. */
type CloudName = Exclude<CloudSetting, 'auto' | 'none'>;
const PROVIDERS: Readonly<Record<CloudName, CloudProvider>> = { aws, gcp, azure, openstack, nocloud };

const keptSchema = z.strictObject({
  cloud: z.enum(['aws', 'gcp', 'azure', 'openstack', 'nocloud']),
  name: z.string().optional(),
  address: z.string().optional(),
  region: z.string().optional(),
  zone: z.string().optional(),
});

/** Inputs of `readCloudHints`. */
export interface CloudHintsOptions {
  /** `cloud` of the provisioning. */
  readonly cloud: CloudSetting;
  /** Where the hints are kept. */
  readonly path: string;
  /** Whether the machine belongs to a cluster. */
  readonly isBound: boolean;
  readonly signal: AbortSignal;
  /** Creates the client of the metadata service. */
  readonly createClient?: (signal: AbortSignal) => AskMetadata;
}

/**
 * Reads the cloud's hints about this machine. Rejects only when the signal fires; on any other failure there are no
 * hints, as on bare metal. The metadata is requested once, before the machine belongs to a cluster. The answer is saved
 * on disk, so that the node's name and labels do not change with later answers.
 */
export async function readCloudHints(
  { files, clock, log }: Pick<SystemPorts, 'files' | 'clock' | 'log'>,
  options: CloudHintsOptions,
): Promise<CloudHints> {
  const { path, isBound, signal, createClient = createMetadataClient } = options;
  const cloud = await cloudOf(files, options.cloud);
  if (cloud === undefined) return {};
  const kept = await loadKept(files, path);
  if (kept?.cloud === cloud) return kept.hints;
  if (isBound) return {};
  try {
    const limit = { what: `reading the metadata of ${cloud}`, ms: LIMIT_MS, clock, signal };
    const hints = await withTimeout(limit, (limited) =>
      PROVIDERS[cloud].read({ ask: createClient(limited), files }),
    );
    if (Object.keys(hints).length === 0) return {};
    await files.writeAtomic(path, `${JSON.stringify({ cloud, ...hints })}\n`);
    log.info('hints of the cloud read', { cloud, ...hints });
    return hints;
  } catch (error) {
    signal.throwIfAborted();
    const code = findCoded(error)?.code ?? 'cloudhints-unavailable';
    log.warn('no hints of the cloud', { cloud, code, error: describeError(error) });
    return {};
  }
}

/**
 * Selects the cloud to query. With `auto`, a request is sent over the network only if the firmware names a cloud, so
 * bare metal is never delayed.
 */
async function cloudOf(files: Pick<FilePort, 'read'>, setting: CloudSetting): Promise<CloudName | undefined> {
  if (setting === 'none') return undefined;
  if (setting !== 'auto') return setting;
  const firmware = await readFirmware(files);
  const found = Object.entries(PROVIDERS).find(([, provider]) => provider.isHere(firmware));
  return (found?.[0] ?? 'nocloud') as CloudName;
}

/** A damaged file counts as missing, because hints are not needed. */
async function loadKept(
  files: Pick<FilePort, 'read'>,
  path: string,
): Promise<{ readonly cloud: CloudName; readonly hints: CloudHints } | undefined> {
  try {
    const { cloud, ...raw } = keptSchema.parse(
      JSON.parse((await readText(files, path, MAX_KEPT_BYTES)) ?? ''),
    );
    const { name, address, region, zone } = raw;
    return { cloud, hints: parseHints({ name, address, region, zone }) };
  } catch {
    return undefined;
  }
}

const DIRECTORY = '/sys/class/dmi/id';
/** An SMBIOS attribute file of the kernel has at most one page. */
const MAX_BYTES = 4096;

/** Reads the SMBIOS values by which clouds are recognized. Machines without SMBIOS have none. Sends nothing. */
async function readFirmware(files: Pick<FilePort, 'read'>): Promise<Firmware> {
  const read = async (name: string): Promise<string> =>
    ((await readText(files, `${DIRECTORY}/${name}`, MAX_BYTES)) ?? '').trim();
  const [biosVersion, vendor, product, chassisAssetTag] = await Promise.all([
    read('bios_version'),
    read('sys_vendor'),
    read('product_name'),
    read('chassis_asset_tag'),
  ]);
  return { biosVersion, vendor, product, chassisAssetTag };
}
