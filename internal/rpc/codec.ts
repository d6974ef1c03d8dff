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

/** A grpc-js service definition from a generated descriptor. Initialisers are completed before they are encoded. */
export function serviceDefinition(service: DescService): ServiceDefinition {
  return Object.fromEntries(service.methods.map((method) => [method.localName, methodDefinition(method)]));
}

export function methodDefinition(
  method: DescMethod,
): MethodDefinition<MessageInitShape<DescMethod['input']>, Message> {
  const serialize = (schema: DescMethod['input']) => (message: MessageInitShape<DescMethod['input']>) =>
    Buffer.from(toBinary(schema, create(schema, message)));
  const deserialize = (schema: DescMethod['input']) => (bytes: Buffer) => fromBinary(schema, bytes);
  return {
    path: `/${method.parent.typeName}/${method.name}`,
    requestStream: method.methodKind === 'client_streaming' || method.methodKind === 'bidi_streaming',
    responseStream: method.methodKind === 'server_streaming' || method.methodKind === 'bidi_streaming',
    requestSerialize: serialize(method.input),
    requestDeserialize: deserialize(method.input),
    responseSerialize: serialize(method.output),
    responseDeserialize: deserialize(method.output),
  };
}
