import { openDevice, type DeviceHandle } from '../file/index.ts';
import { malformed, TpmError } from './errors.ts';
import { MAX_MESSAGE_BYTES, type Transport, type TransportSource } from './transport.ts';

/** `/dev/tpmrm0`: the kernel's resource manager. One write is one command, one read its whole response. */
export function deviceSource(path: string): TransportSource {
  return {
    address: path,
    canStayOpen: true,
    open: async () => {
      try {
        return new DeviceTransport(await openDevice(path));
      } catch (error) {
        throw new TpmError('tpm-unavailable', `opening the TPM at ${path}`, { cause: error });
      }
    },
  };
}

class DeviceTransport implements Transport {
  readonly #device: DeviceHandle;

  constructor(device: DeviceHandle) {
    this.#device = device;
  }

  /** The kernel has no way to call a command off, so the signal is looked at before it and not during it. */
  async transmit(command: Uint8Array, signal: AbortSignal): Promise<Uint8Array> {
    signal.throwIfAborted();
    try {
      await this.#device.write(command);
      const response = await this.#device.read(MAX_MESSAGE_BYTES);
      if (response.length === 0) throw malformed('a response: the device gave no bytes');
      return response;
    } catch (error) {
      if (error instanceof TpmError) throw error;
      throw new TpmError('tpm-connection', 'talking to the TPM device', { cause: error });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#device[Symbol.asyncDispose]();
  }
}
