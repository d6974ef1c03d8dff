import {
  fromBinary,
  toBinary,
  create,
  type DescMethod,
  type DescService,
  type MessageInitShape,
  type MessageShape,
} from '@bufbuild/protobuf';
import type { MethodDefinition, ServiceDefinition } from '@grpc/grpc-js';

type Message = MessageShape<DescMethod['input']>;

/** A grpc-js service definition from a generated descriptor. Partial messages are completed before they are encoded. */
export function serviceDefinition(service: DescService): ServiceDefinition {
  return Object.fromEntries(service.methods.map((method) => [method.localName, methodDefinition(method)]));
}

/** Path, codecs and stream kinds of one method, as grpc-js wants them. */
export function methodDefinition(
  method: DescMethod,
): MethodDefinition<MessageInitShape<DescMethod['input']>, Message> {
  const serialize = (schema: DescMethod['input']) => (message: MessageInitShape<DescMethod['input']>) =>
    bufferOf(toBinary(schema, create(schema, message)));
  const deserialize = (schema: DescMethod['input']) => (bytes: Buffer) => fromBinary(schema, bytes);
  return {
    path: `/${method.parent.typeName}/${method.name}`,
    requestStream: method.methodKind === 'client_streaming' || method.methodKind === 'bidi_streaming',
    responseStream: method.methodKind === 'server_streaming' || method.methodKind === 'bidi_streaming',
    requestSerialize: serialize(method.input),
    requestDeserialize: deserialize(method.input),
    responseSerialize: onceWhenFrozen(serialize(method.output)),
    responseDeserialize: deserialize(method.output),
  };
}

/** Encodes a frozen message once, however many clients it is sent to: it cannot change. */
function onceWhenFrozen<M extends object>(serialize: (message: M) => Buffer): (message: M) => Buffer {
  const known = new WeakMap<M, Buffer>();
  return (message) => {
    if (!Object.isFrozen(message)) return serialize(message);
    const bytes = known.get(message) ?? serialize(message);
    known.set(message, bytes);
    return bytes;
  };
}

/** A Buffer over the same memory: grpc-js takes no Uint8Array. */
function bufferOf({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, length);
}
