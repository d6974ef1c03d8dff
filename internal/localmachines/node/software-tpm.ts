import { createHash, X509Certificate } from 'node:crypto';
import { inScope, type CgroupLayout } from '../host/cgroups.ts';
import { type HostPorts, output } from '../host/host-ports.ts';

/**
 * The software TPM of a node. It is manufactured once, with certificates for its endorsement keys from the manufacturer CA of the
 * cluster. The state is the identity: a copy of it is a second machine with the same keys.
 *
 *     <tpm>/state   state of the chip              <tpm>/certs   EK certificates (DER)
 *     <tpm>/run     the socket for the node        <tpm>/swtpm.log
 */
export interface SoftwareTpm {
  readonly directory: string;
  readonly scope: string;
}

/** The socket of the TPM in the node. */
export const TPM_SOCKET_IN_NODE = '/run/cluster-tpm/tpm.sock';
const SOCKET = 'tpm.sock';
const EK_CERTIFICATE = 'ek-secp384r1.crt';

/** A container sends commands to the socket of the chip. QEMU controls the chip itself: it resets the chip with the machine (swtpm(8), `--ctrl`). */
export type TpmInterface = 'commands' | 'control';

/** Writes the configuration of a manufacturer CA. swtpm_localca creates its keys at the first use. */
export async function prepareManufacturer(host: HostPorts, directory: string): Promise<void> {
  const manufacturer = [
    `statedir = ${directory}`,
    `signingkey = ${directory}/signkey.pem`,
    `issuercert = ${directory}/issuercert.pem`,
    `certserial = ${directory}/certserial`,
  ];
  const setup = [
    'create_certs_tool = /usr/bin/swtpm_localca',
    `create_certs_tool_config = ${directory}/localca.conf`,
    `create_certs_tool_options = ${directory}/localca.options`,
    'active_pcr_banks = sha256',
  ];
  const options = ['--platform-manufacturer cluster', '--platform-version 1', '--platform-model local'];
  await host.files.makeDirectory(directory);
  await host.files.writeAtomic(`${directory}/localca.conf`, `${manufacturer.join('\n')}\n`);
  await host.files.writeAtomic(`${directory}/localca.options`, `${options.join('\n')}\n`);
  await host.files.writeAtomic(`${directory}/setup.conf`, `${setup.join('\n')}\n`);
}

/** Manufactures the chip unless it exists. An incomplete chip is manufactured again. */
export async function manufactureTpm(
  host: HostPorts,
  layout: CgroupLayout,
  options: {
    readonly tpm: SoftwareTpm;
    readonly manufacturer: string;
    readonly launch: string;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const { directory: directory, scope } = options.tpm;
  if ((await host.files.stat(`${directory}/manufactured`)) !== undefined) return;
  await host.files.remove(directory);
  for (const sub of ['state', 'certs', 'run']) await host.files.makeDirectory(`${directory}/${sub}`);
  // Runs in the cgroup scope of the TPM, so that `mini down` finds the process of swtpm_setup even if the present
  // process is killed. prettier-ignore
  const argv = inScope(layout, { launch: options.launch, scope, log: `${directory}/swtpm.log` }, [
    'swtpm_setup',
    '--tpm2',
    '--create-ek-cert',
    '--create-platform-cert',
    '--pcr-banks',
    'sha256',
    '--config',
    `${options.manufacturer}/setup.conf`,
    '--tpmstate',
    `${directory}/state`,
    '--write-ek-cert-files',
    `${directory}/certs`,
  ]);
  await output(host, argv, options.signal);
  await host.files.writeAtomic(`${directory}/manufactured`, '');
}

/** Starts the chip with registers at zero, as after a power cycle. */
export async function startTpm(
  host: HostPorts,
  layout: CgroupLayout,
  options: { readonly tpm: SoftwareTpm; readonly launch: string; readonly speaks: TpmInterface },
): Promise<void> {
  const { directory: directory, scope } = options.tpm;
  await host.files.remove(`${directory}/run/${SOCKET}`);
  // prettier-ignore
  const argv = inScope(layout, { launch: options.launch, scope, log: `${directory}/swtpm.log` }, [
    'swtpm', 'socket', '--tpm2', '--tpmstate', `dir=${directory}/state`,
    // A relative path, because the address of a unix socket has at most 107 bytes.
    ...(options.speaks === 'control'
      ? ['--ctrl', `type=unixio,path=${SOCKET}`, '--terminate']
      : ['--flags', 'not-need-init,startup-clear', '--server', `type=unixio,path=${SOCKET}`]),
  ]);
  await host.processes.startDetached({ argv, cwd: `${directory}/run` });
}

/** `sha256:…` over the public key (SubjectPublicKeyInfo) of the P-384 endorsement key. */
export async function readEkFingerprint(host: HostPorts, tpm: SoftwareTpm): Promise<string | undefined> {
  const der = await host.files.read(`${tpm.directory}/certs/${EK_CERTIFICATE}`, 65_536);
  if (der === undefined) return undefined;
  const spki = new X509Certificate(der).publicKey.export({ type: 'spki', format: 'der' });
  return `sha256:${createHash('sha256').update(spki).digest('hex')}`;
}

/** Whether the chip accepts connections. */
export async function isTpmListening(host: HostPorts, tpm: SoftwareTpm): Promise<boolean> {
  return (await host.files.stat(`${tpm.directory}/run/${SOCKET}`)) !== undefined;
}
