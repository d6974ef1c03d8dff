import { openDevice, type DeviceHandle } from '../file/index.ts';
import { malformed, TpmError } from './errors.ts';
import { MAX_MESSAGE_BYTES, type Transport, type TransportSource } from './transport.ts';

/** A TPM device (`/dev/tpmrm0`, the resource manager of the kernel). One write sends a command, one read gets the response. */
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

  /** The kernel cannot cancel a TPM command, so the signal is checked only before the write. */
  async transmit(command: Uint8Array, signal: AbortSignal): Promise<Uint8Array> {
    signal.throwIfAborted();
    try {
      await this.#device.write(command);
      const response = await this.#device.read(MAX_MESSAGE_BYTES);
      if (response.length === 0) throw malformed('a response: the device returned no bytes');
      return response;
    } catch (error) {
      if (error instanceof TpmError) throw error;
      throw new TpmError('tpm-connection', 'sending a command to the TPM device', { cause: error });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#device[Symbol.asyncDispose]();
  }
}
