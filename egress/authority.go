package egress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// Authority is a root certificate of one sandbox's, and its key. The sandbox trusts it, and
// nobody else does; the key is in no file.
type Authority struct {
	Certificate []byte `json:"certificate"` // DER
	Key         []byte `json:"key"`         // as x509.MarshalECPrivateKey makes it
}

// authorityLife is how long a root is valid: longer than any sandbox, which keeps it.
const authorityLife = 5 * 365 * 24 * time.Hour

// NewAuthority makes a root. It signs intermediates alone, of which each can stand for the
// hosts that rules intercept and for nothing else.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := NewSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: fmt.Sprintf("Paddock sandbox %x", serial.Bytes()[:4])},
		NotBefore:    time.Now().Add(-24 * time.Hour), // for clocks that differ
		NotAfter:     time.Now().Add(authorityLife),
		IsCA:         true, BasicConstraintsValid: true, MaxPathLen: 1,
		KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	own, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &Authority{Certificate: der, Key: own}, nil
}

// PEM returns the certificate as programs read it.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate})
}

// NewSerial returns the number of a certificate: random, positive, of 16 bytes.
func NewSerial() (*big.Int, error) {
	number := make([]byte, 16)
	if _, err := rand.Read(number); err != nil {
		return nil, err
	}
	number[0] = number[0]&0x3f | 0x40
	return new(big.Int).SetBytes(number), nil
}
