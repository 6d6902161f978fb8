package proxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/paddock-dev/paddock/egress"
)

const (
	intermediateLife = 7 * 24 * time.Hour
	leafLife         = 24 * time.Hour
)

// signer makes the certificates of intercepted hosts. The root signs one intermediate for
// all of their names, and for nothing else: programs that look at the limits of a certificate
// do so with those of an intermediate, not all with those of a root. The intermediate signs
// one certificate for each name. All of them are renewed in the second half of their lives.
type signer struct {
	root    *x509.Certificate
	rootKey *ecdsa.PrivateKey
	now     func() time.Time

	mu       sync.Mutex
	names    []string // in order
	middle   *x509.Certificate
	middleBy *ecdsa.PrivateKey
	leafKey  *ecdsa.PrivateKey
	leaves   map[string]*tls.Certificate
}

func newSigner(a *egress.Authority, now func() time.Time) (*signer, error) {
	root, err := x509.ParseCertificate(a.Certificate)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParseECPrivateKey(a.Key)
	if err != nil {
		return nil, err
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return &signer{root: root, rootKey: key, now: now, leafKey: leafKey, leaves: map[string]*tls.Certificate{}}, nil
}

// permit sets the names that can have certificates.
func (a *signer) permit(names []string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.Equal(a.names, names) {
		return nil
	}
	return a.renew(names)
}

// renew makes an intermediate. The one before it, and its certificates, are used no more.
func (a *signer) renew(names []string) error {
	clear(a.leaves)
	a.names, a.middle = names, nil
	if len(names) == 0 {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template, err := a.template("Paddock sandbox, hosts of its rules", intermediateLife, a.root)
	if err != nil {
		return err
	}
	template.IsCA, template.MaxPathLenZero = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	template.PermittedDNSDomainsCritical = true
	template.PermittedDNSDomains = names
	template.ExcludedIPRanges = []*net.IPNet{{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, {IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}}
	middle, err := sign(template, a.root, key, a.rootKey)
	if err != nil {
		return err
	}
	a.middle, a.middleBy = middle, key
	return nil
}

// template returns what certificates have in common.
func (a *signer) template(name string, life time.Duration, issuer *x509.Certificate) (*x509.Certificate, error) {
	serial, err := egress.NewSerial()
	if err != nil {
		return nil, err
	}
	begin, end := a.now().Add(-24*time.Hour), a.now().Add(life)
	if begin.Before(issuer.NotBefore) {
		begin = issuer.NotBefore
	}
	if end.After(issuer.NotAfter) {
		end = issuer.NotAfter
	}
	return &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: begin, NotAfter: end, BasicConstraintsValid: true}, nil
}

func sign(template, issuer *x509.Certificate, key, by *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, by)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// certificate returns the certificate of a name, with its intermediate.
func (a *signer) certificate(name string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := slices.BinarySearch(a.names, name); !ok {
		return nil, errors.New("no rule intercepts it")
	}
	now := a.now()
	if a.middle == nil || now.After(a.middle.NotAfter.Add(-intermediateLife/2)) {
		if err := a.renew(a.names); err != nil {
			return nil, err
		}
	}
	if leaf := a.leaves[name]; leaf != nil && now.Before(leaf.Leaf.NotAfter.Add(-leafLife/2)) {
		return leaf, nil
	}
	subject := name
	if len(subject) > 64 { // the bound of a common name
		subject = "a host of the rules"
	}
	template, err := a.template(subject, leafLife, a.middle)
	if err != nil {
		return nil, err
	}
	template.DNSNames = []string{name}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	made, err := sign(template, a.middle, a.leafKey, a.middleBy)
	if err != nil {
		return nil, err
	}
	leaf := &tls.Certificate{Certificate: [][]byte{made.Raw, a.middle.Raw}, PrivateKey: a.leafKey, Leaf: made}
	a.leaves[name] = leaf
	return leaf, nil
}
